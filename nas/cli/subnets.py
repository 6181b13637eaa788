"""`nas extract`, `retrain`, `compress`, `export` and `measure`: from the front to a model that is shipped."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nas.cli import _complete
from nas.cli._app import SUBNETS, Json, SubnetName, app, screen, show_result


@app.command(rich_help_panel=SUBNETS)
def extract(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_complete.runs, show_default=False,
                                       help="A run that was searched.")],
    most: Annotated[list[str] | None, typer.Option(
        "--max", metavar="MEASURE=VALUE", show_default=False,
        help="Take the best within a limit, such as latency:cpu=12ms or params=5M; several times. Beside --knee, --top "
             "and --all-pareto: what they choose from.")] = None,
    least: Annotated[list[str] | None, typer.Option(
        "--min", metavar="MEASURE=VALUE", show_default=False, help="A limit from below; several times.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", show_default=False,
                                            help="Take the one whose key begins so.")] = None,
    knee: Annotated[bool, typer.Option(
        "--knee", help="Take the one where the front of quality and the first cost bends most: farthest from the line "
                       "between its ends.")] = False,
    top: Annotated[int | None, typer.Option("--top", metavar="N", min=1, show_default=False,
                                            help="Take the N best by quality.")] = None,
    all_pareto: Annotated[bool, typer.Option("--all-pareto", help="Take the whole front.")] = False,
    device: Annotated[str | None, typer.Option(
        "--device", metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
        help="Whose front and cost count; also a device that was profiled after the search.")] = None,
    as_json: Json = False,
) -> None:
    """Cut the architectures you choose out, as plain models.

    Each is checked to give the supernet's outputs before it is written, in a folder of its own, to RUN's folder
    subnets, and is judged on the whole validation split. What is there already is kept.

    Example: [cyan]nas extract first --max latency:cpu=12ms[/cyan]
    """
    from nas.extract import extract as stage
    from nas.search.picking import Choice

    choice = Choice(key=key, knee=knee, top=top, all_pareto=all_pareto, most=tuple(most or ()),
                    least=tuple(least or ()), device=device)
    found = stage(run, choice, screen(as_json))
    show_result(found.to_dict() if as_json else found.table())


@app.command(rich_help_panel=SUBNETS)
def retrain(
    name: Annotated[str, typer.Argument(
        metavar="SUBNET|RUN", autocompletion=_complete.runs_and_subnets, show_default=False,
        help="A subnet's folder, or RUN/KEY with the beginning of its key; with --top a run.")],
    init: Annotated[str, typer.Option("--init", metavar="inherit|scratch",
                                      help="Begin with the subnet's weights, or with fresh ones.")] = "inherit",
    teacher: Annotated[str, typer.Option(
        "--teacher", metavar="supernet|none|SUBNET",
        help="Who teaches beside the labels: the largest architecture of the supernet, nobody, or another "
             "subnet.")] = "supernet",
    distill: Annotated[str | None, typer.Option(
        "--distill", metavar="LOSSES", show_default=False,
        help="What the teacher is asked for, with commas between: logits, features (the states after layers that "
             "belong together), attention (their maps). logits by default.")] = None,
    theseus: Annotated[bool, typer.Option(
        "--theseus", help="Let the subnet's layers take the places of a larger architecture's one by one.")] = False,
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="KEY=VALUE", show_default=False,
        help="A setting, several times: temperature, label_share, feature_weight, attention_weight, fade, "
             "theseus_start, theseus_share, or one of the training, which nas settings lists. Where not given it is "
             "the run's, with a quarter of its steps.")] = None,
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", show_default=False,
                                            help="The new subnet's folder; SUBNET-retrained by default.")] = None,
    top: Annotated[int | None, typer.Option(
        "--top", metavar="N", min=1, show_default=False,
        help="Retrain the N best subnets that were extracted from a run.")] = None,
    ray: Annotated[str | None, typer.Option(
        "--ray", metavar="auto|ADDRESS|local", show_default=False,
        help="With --top, train them at once on a Ray cluster: the one this machine belongs to, one by its address, or "
             "one on this machine for this command. Without: one after the other.")] = None,
    concurrency: Annotated[int | None, typer.Option(
        "--concurrency", metavar="N", min=1, show_default=False,
        help="Trainings at once on the cluster; as many as it has room for by default.")] = None,
    as_json: Json = False,
) -> None:
    """Train a subnet on its own, taught by the supernet.

    Ctrl-C stops; called again, it goes on.

    Example: [cyan]nas retrain first/7b9f --distill logits,features --set steps=500[/cyan]
    """
    from nas import retrain_command as stage
    from nas.config import parse_settings
    from nas.retrain_config import Asked
    from search_spaces import InputError

    if top is None and (ray or concurrency):
        raise InputError("--ray, --concurrency", "are for several subnets; add --top")
    if concurrency and not ray:
        raise InputError("--concurrency", "is for a cluster; add --ray")
    given = parse_settings(settings or [], "--set")
    asked, console = Asked(init, teacher, distill, theseus, given, out), screen(as_json)
    if top is None:
        found = stage.retrain_one(name, asked, console)
    else:
        found = stage.retrain_best(name, top, asked, stage.Cluster(ray, concurrency), console)
    if found is None:
        raise typer.Exit(130)
    show_result(found.to_dict() if as_json else found.table())


@app.command(rich_help_panel=SUBNETS)
def compress(
    subnet: SubnetName,
    int8: Annotated[bool, typer.Option(
        "--int8", help="Eight bits for weights and for what they are multiplied with.")] = False,
    static: Annotated[bool, typer.Option(
        "--static", help="With --int8: fixed scales, read off training batches, instead of one per token.")] = False,
    qat: Annotated[bool, typer.Option(
        "--qat", help="With --int8: train the model as it will run, rounded (quantisation-aware).")] = False,
    int4: Annotated[bool, typer.Option("--int4", help="Four bits for weights.")] = False,
    group: Annotated[int | None, typer.Option(
        "--group", metavar="N", show_default=False,
        help="With --int4: how many inputs share a scale; 32 by default.")] = None,
    prune: Annotated[float | None, typer.Option(
        "--prune", metavar="SHARE", show_default=False,
        help="Take this share of all weights away, the smallest, and train the others.")] = None,
    rewind: Annotated[bool, typer.Option(
        "--rewind", help="With --prune: in rounds, each from an early step of the first (lottery ticket).")] = False,
    prune_heads: Annotated[float | None, typer.Option(
        "--prune-heads", metavar="SHARE", show_default=False,
        help="Leave this share of the attention heads out, those that matter least.")] = None,
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="KEY=VALUE", show_default=False,
        help="A setting, several times: batches (of --static and --prune-heads), rounds and rewind_step (of --rewind), "
             "or one of the training, which nas settings lists. Where not given, a training has a tenth of the run's "
             "steps and less of its lr; --prune-heads has none, nor has --prune with steps=0.")] = None,
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", show_default=False,
                                            help="The new subnet's folder; SUBNET-int8 and so on by default.")] = None,
    as_json: Json = False,
) -> None:
    """Make a subnet smaller: int8, int4, or pruned.

    Takes exactly one of --int8, --int4, --prune and --prune-heads. Ctrl-C stops; called again, it goes on.

    Example: [cyan]nas compress first/7b9f --int8[/cyan]
    """
    from nas import compress_command as stage
    from nas.config import parse_settings

    given = {"int8": int8, "static": static, "qat": qat, "int4": int4, "group": group, "prune": prune,
             "rewind": rewind, "prune-heads": prune_heads}
    asked = stage.Asked({name: value for name, value in given.items() if value is not None and value is not False},
                        parse_settings(settings or [], "--set"), out)
    found = stage.run(subnet, asked, screen(as_json))
    if found is None:
        raise typer.Exit(130)
    show_result(found.to_dict() if as_json else stage.result_table(found))


@app.command(rich_help_panel=SUBNETS)
def export(
    subnet: SubnetName,
    format_name: Annotated[str, typer.Option(
        "--format", metavar="FORMAT", show_default=False,
        help="onnx, executorch, torch-export or huggingface; an unknown name lists them.")],
    int8: Annotated[bool, typer.Option("--int8", help="Quantise the weights on the way; judged by the loss.")] = False,
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", show_default=False,
                                            help="The folder; SUBNET/exports/FORMAT by default.")] = None,
    length: Annotated[int | None, typer.Option(
        "--length", metavar="N", min=1, show_default=False,
        help="Tokens of a sequence where the format fixes them (executorch); the context by default.")] = None,
    most_loss: Annotated[float | None, typer.Option(
        "--max-loss-increase", metavar="NATS", min=0.0, show_default=False,
        help="With --int8, the most that the validation loss may rise by; 0.05 by default.")] = None,
    as_json: Json = False,
) -> None:
    """Write a subnet in a format that others run.

    It is compared with the plain model, on validation data where its run is there, and not written where it differs.
    What is there of an earlier export is replaced.

    Example: [cyan]nas export first/7b9f --format onnx --int8[/cyan]
    """
    from nas import export_command as stage

    found = stage.export(subnet, stage.Asked(format_name, int8, out, length, most_loss), screen(as_json))
    show_result(found.to_dict() if as_json else found.table())


@app.command(rich_help_panel=SUBNETS)
def measure(
    names: Annotated[list[str], typer.Argument(
        metavar="SUBNET|RUN...", autocompletion=_complete.runs_and_subnets, show_default=False,
        help="Subnets' folders, or RUN/KEY with the beginning of a key; a run stands for all its subnets.")],
    devices: Annotated[list[str], typer.Option(
        "--device", metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
        help="A profiled device, or a profile's folder; several times.")],
    phase: Annotated[str, typer.Option("--phase", metavar="PHASE", help="prefill or decode.")] = "prefill",
    budget: Annotated[str, typer.Option("--budget", metavar="TIME",
                                        help="For timing on each device, such as 90s or 3m.")] = "1m",
    as_json: Json = False,
) -> None:
    """Time subnets on devices, beside what their profiles predict.

    Stopped, it goes on when called again.

    Example: [cyan]nas measure first --device cpu --device cpu-onnxruntime[/cyan]
    """
    from nas import measure_command as stage

    found = stage.run(names, devices, phase, budget, screen(as_json))
    if found is None:
        print("stopped; what was measured is kept: call again to go on", file=sys.stderr)
        raise typer.Exit(130)
    show_result(found.to_dict() if as_json else found.table())
