"""`nas import`, `prune-to`, `extract`, `retrain`, `compress`, `export`, `measure`, `compare`: from model to export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nas.cli import _complete
from nas.cli._app import SUBNETS, Json, SubnetName, app, screen, show_result
from nas.cli._declared import TECHNIQUE, CompressCommand, ExportCommand


@app.command("import", rich_help_panel=SUBNETS)
def import_model(
    source: Annotated[str, typer.Argument(
        metavar="FOLDER|NAME", show_default=False,
        help="Folder with config.json, safetensors and tokenizer.json, or a model's name on the Hugging Face Hub.")],
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", show_default=False,
                                            help="Folder of the subnet; default imported/NAME.")] = None,
    head: Annotated[str | None, typer.Option(
        "--head", metavar="HEAD", show_default=False,
        help="Output of the model: lm, features (hidden states), pooler, masked_lm or classifier. Default: the "
             "head of the class in config.json; for an encoder without a head, its pooler or else features.")] = None,
    context: Annotated[int | None, typer.Option(
        "--context", metavar="N", min=1, show_default=False,
        help="Longest sequence; default: that of the model.")] = None,
    as_json: Json = False,
) -> None:
    """Import a pretrained model from the Hugging Face Hub as a subnet.

    Outputs are compared with those of transformers, if it is installed. Supported: BERT, MiniLM, RoBERTa, DistilBERT,
    ELECTRA, ALBERT, GPT-2, Llama, SmolLM, Mistral, Qwen2, Qwen3, T5, BART, Marian.

    Example: [cyan]nas import ./all-MiniLM-L6-v2[/cyan]
    """
    from nas.stages.import_model.request import ImportRequest
    from nas.stages.import_model.run import run
    from nas.stages.import_model.view import import_table
    from nas.terminal.progress import TerminalProgress

    request = ImportRequest(source, Path(out) if out else None, head, context)
    with TerminalProgress(screen(as_json)) as progress:
        result = run(request, progress)
    show_result(result.to_dict() if as_json else import_table(result))


@app.command("space-from", rich_help_panel=SUBNETS)
def space_from(
    subnet: SubnetName,
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", show_default=False,
                                            help="YAML file to write; default NAME.yaml.")] = None,
    keep: Annotated[list[str] | None, typer.Option(
        "--keep", metavar="DIMENSION", show_default=False,
        help="Dimension to keep fixed, repeatable: depth, width, heads, ffn, rank, sharing, or all.")] = None,
    least: Annotated[float, typer.Option("--least", metavar="SHARE",
                                         help="Smallest value of a dimension, as a share of the model's value.")] = 0.3,
    classes: Annotated[int | None, typer.Option(
        "--classes", metavar="N", show_default=False,
        help="Replace the head of an encoder with a new classifier with N classes.")] = None,
    uniform: Annotated[bool, typer.Option(
        "--uniform", help="Give all layers of an architecture the same dims, as stock classes of transformers "
                          "require.")] = False,
    choices: Annotated[int, typer.Option("--choices", metavar="N",
                                         help="Maximum values per dimension; use more for small budgets.")] = 4,
    as_json: Json = False,
) -> None:
    """Write a search space around a model.

    The largest architecture of the space is the model itself.

    Example: [cyan]nas space-from imported/minilm --least 0.25 --classes 2[/cyan]
    """
    from nas.stages.space_from.request import SpaceFromRequest
    from nas.stages.space_from.run import run
    from nas.stages.space_from.view import space_lines

    result = run(SpaceFromRequest(subnet, Path(out) if out else None, tuple(keep or ()), least, classes, uniform,
                                  choices))
    show_result(result.to_dict() if as_json else space_lines(result))


@app.command("prune-to", rich_help_panel=SUBNETS)
def prune_to(
    subnet: SubnetName,
    most: Annotated[list[str] | None, typer.Option(
        "--max", metavar="MEASURE=VALUE", show_default=False,
        help="Upper limit, such as latency:cpu=12ms or params=5M; repeatable.")] = None,
    method: Annotated[str | None, typer.Option(
        "--method", metavar="METHOD", show_default=False,
        help="uniform: shrink all widths, heads and feed-forwards by one factor; layers: remove whole layers, evenly "
             "spread; importance: remove the least important feed-forward channels and heads of all layers first. "
             "Default uniform.")] = None,
    layers: Annotated[list[str] | None, typer.Option(
        "--layers", metavar="N,N,...", show_default=False,
        help="Layers to keep, counted from 0, such as 0,2,5; for a model with two stacks, "
             "encoder=0,2; repeatable.")] = None,
    score: Annotated[str | None, typer.Option(
        "--score", metavar="SCORE", show_default=False,
        help="Importance of channels and heads: activation (mean magnitude) or taylor (first-order change of the "
             "loss). Default taylor for the method importance, else activation.")] = None,
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", show_default=False,
                                            help="Folder of the new subnet; default SUBNET-METHOD.")] = None,
    as_json: Json = False,
) -> None:
    """Prune a subnet to a limit without a search.

    The methods are baselines for a search. The result is the largest model that the method produces within all limits;
    it is a subnet, which can be retrained.

    Example: [cyan]nas prune-to imported/minilm --max latency:cpu-onnxruntime=4ms --method layers[/cyan]
    """
    from nas.stages.prune_to.request import PruneToRequest
    from nas.stages.prune_to.run import run
    from nas.stages.prune_to.view import prune_table
    from nas.terminal.progress import TerminalProgress

    request = PruneToRequest(subnet, tuple(most or ()), method, tuple(layers or ()), score, Path(out) if out else None)
    with TerminalProgress(screen(as_json)) as progress:
        result = run(request, progress)
    show_result(result.to_dict() if as_json else prune_table(result))


@app.command(rich_help_panel=SUBNETS)
def extract(
    run: Annotated[str, typer.Argument(metavar="RUN", autocompletion=_complete.runs, show_default=False,
                                       help="A run with a search.")],
    most: Annotated[list[str] | None, typer.Option(
        "--max", metavar="MEASURE=VALUE", show_default=False,
        help="Select the best within a limit, such as latency:cpu=12ms or params=5M; repeatable. With --knee, --top or "
             "--all-pareto: restrict the candidates.")] = None,
    least: Annotated[list[str] | None, typer.Option(
        "--min", metavar="MEASURE=VALUE", show_default=False, help="Lower limit; repeatable.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", show_default=False,
                                            help="Select the architecture whose key starts with KEY.")] = None,
    knee: Annotated[bool, typer.Option(
        "--knee", help="Select the knee of the front of quality and the first cost: the point farthest from the line "
                       "between its ends.")] = False,
    top: Annotated[int | None, typer.Option("--top", metavar="N", min=1, show_default=False,
                                            help="Select the N best by quality.")] = None,
    all_pareto: Annotated[bool, typer.Option("--all-pareto", help="Select the whole front.")] = False,
    device: Annotated[str | None, typer.Option(
        "--device", metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
        help="Device whose front and costs are used; may be profiled after the search.")] = None,
    as_json: Json = False,
) -> None:
    """Extract selected architectures as standalone models.

    Each subnet is checked against the supernet's outputs, evaluated on the whole validation split, and written to its
    own folder in subnets/ of the run. Existing subnets are kept.

    Example: [cyan]nas extract first --max latency:cpu=12ms[/cyan]
    """
    from nas.core.picking import Choice
    from nas.stages.extract.request import ExtractRequest
    from nas.stages.extract.run import run as stage
    from nas.stages.extract.view import extract_table
    from nas.terminal.progress import TerminalProgress

    choice = Choice(key=key, knee=knee, top=top, all_pareto=all_pareto, max=tuple(most or ()), min=tuple(least or ()),
                    device=device)
    request = ExtractRequest(run, choice)
    with TerminalProgress(screen(as_json)) as progress:
        result = stage(request, progress)
    show_result(result.to_dict() if as_json else extract_table(result))


@app.command(rich_help_panel=SUBNETS)
def retrain(
    name: Annotated[str, typer.Argument(
        metavar="SUBNET|RUN", autocompletion=_complete.runs_and_subnets, show_default=False,
        help="Folder of a subnet, or RUN/KEY, where KEY is a prefix of its key; with --top, a run.")],
    task: Annotated[str | None, typer.Option(
        "--task", metavar="TASK", show_default=False,
        help="Fine-tune the subnet for another task, with a new head if it needs one; for imported models.")] = None,
    data: Annotated[list[str] | None, typer.Option(
        "--data", metavar="KEY=VALUE", show_default=False,
        help="With --task: data option, such as train=FILE; repeatable. Default: the bundled sample data.")] = None,
    run_name: Annotated[str | None, typer.Option(
        "--run", metavar="NAME", show_default=False,
        help="With --task: run that holds the data and the result; default SUBNET-TASK.")] = None,
    init: Annotated[str, typer.Option("--init", metavar="inherit|model|scratch",
                                      help="Initial weights: inherit (those of the subnet), model (the same part of "
                                           "the model that its run started from, before the supernet was trained), or "
                                           "scratch (random ones).")] = "inherit",
    teacher: Annotated[str, typer.Option(
        "--teacher", metavar="supernet|none|SUBNET",
        help="Teacher for distillation. supernet: its largest architecture, if there is a supernet; none: no "
             "teacher; or another subnet.")] = "supernet",
    distill: Annotated[str | None, typer.Option(
        "--distill", metavar="LOSSES", show_default=False,
        help="Distillation losses, separated by commas: logits, features (hidden states of matching layers), attention "
             "(attention maps). Default logits.")] = None,
    theseus: Annotated[bool, typer.Option(
        "--theseus", help="Replace the layers of a larger architecture one by one (BERT-of-Theseus).")] = False,
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="KEY=VALUE", show_default=False,
        help="Setting, repeatable: temperature, label_share, feature_weight, attention_weight, fade, theseus_start, "
             "theseus_share, or a training setting (see nas settings). Default: those of the run, with a quarter of "
             "its steps.")] = None,
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", show_default=False,
                                            help="Folder of the new subnet; default SUBNET-retrained.")] = None,
    top: Annotated[int | None, typer.Option(
        "--top", metavar="N", min=1, show_default=False,
        help="Retrain the N best extracted subnets of a run.")] = None,
    ray: Annotated[str | None, typer.Option(
        "--ray", metavar="auto|ADDRESS|local", show_default=False,
        help="With --top, train in parallel on a Ray cluster: auto (the one this machine belongs to), an address, or "
             "local (started on this machine). Default: one after the other.")] = None,
    concurrency: Annotated[int | None, typer.Option(
        "--concurrency", metavar="N", min=1, show_default=False,
        help="Parallel training runs on the cluster; default: as many as fit.")] = None,
    as_json: Json = False,
) -> None:
    """Retrain a subnet with a teacher, or fine-tune it for a task.

    The teacher is the supernet by default. Ctrl-C stops it; rerun to resume.

    Example: [cyan]nas retrain first/7b9f --distill logits,features --set steps=500[/cyan]
    Example: [cyan]nas retrain imported/minilm --task classification --data train=reviews.tsv[/cyan]
    """
    from nas.cli._settings import parse_settings
    from nas.stages.retrain.request import RetrainBestRequest, RetrainRequest
    from nas.stages.retrain.run import run
    from nas.stages.retrain.view import result_data, result_table
    from nas.terminal.progress import TerminalProgress
    from search_spaces import InputError

    if top is None and (ray or concurrency):
        raise InputError("--ray, --concurrency", "need several subnets; add --top")
    if top is not None and out is not None:
        raise InputError("--out", "names the folder of one result; it cannot be combined with --top")
    if top is not None and (task is not None or data or run_name is not None):
        raise InputError("--task, --data, --run", "apply to one subnet; they cannot be combined with --top")
    losses, training = None if distill is None else tuple(distill.split(",")), parse_settings(settings or [], "--set")
    request: RetrainRequest | RetrainBestRequest
    if top is None:
        request = RetrainRequest(subnet=name, init=init, teacher=teacher, distill=losses, theseus=theseus,
                                 training=training, out=out, task=task, data=parse_settings(data or [], "--data"),
                                 run=run_name)
    else:
        request = RetrainBestRequest(run=name, top=top, init=init, teacher=teacher, distill=losses, theseus=theseus,
                                     training=training, ray=ray, concurrency=concurrency)
    with TerminalProgress(screen(as_json)) as progress:
        result = run(request, progress)
    show_result(result_data(result) if as_json else result_table(result))


@app.command(rich_help_panel=SUBNETS, cls=CompressCommand)
def compress(
    context: typer.Context,
    subnet: SubnetName,
    settings: Annotated[list[str] | None, typer.Option(
        "--set", metavar="KEY=VALUE", show_default=False, help="Setting, repeatable.")] = None,
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", show_default=False,
                                            help="Folder of the new subnet; default SUBNET-TECHNIQUE.")] = None,
    as_json: Json = False,
) -> None:
    """Make a subnet smaller: quantise or prune it.

    Takes exactly one technique. Ctrl-C stops it; rerun to resume.

    Example: [cyan]nas compress first/7b9f --int8[/cyan]
    """
    from nas.cli._settings import parse_settings
    from nas.stages.compress.request import CompressRequest
    from nas.stages.compress.run import run
    from nas.stages.compress.techniques import make_technique
    from nas.stages.compress.view import compress_table
    from nas.terminal.progress import TerminalProgress

    named = make_technique(context.meta[TECHNIQUE])
    technique, training = named.with_settings(parse_settings(settings or [], "--set"))
    with TerminalProgress(screen(as_json)) as progress:
        result = run(CompressRequest(subnet, technique, training, Path(out) if out else None), progress)
    show_result(result.to_dict() if as_json else compress_table(result))


@app.command(rich_help_panel=SUBNETS, cls=ExportCommand)
def export(
    subnet: SubnetName,
    format_name: Annotated[str, typer.Option(
        "--format", metavar="FORMAT", show_default=False, help="The format.")],
    int8: Annotated[bool, typer.Option("--int8", help="Quantise to int8; checked by the validation loss.")] = False,
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", show_default=False,
                                            help="Output folder; default SUBNET/exports/FORMAT, or FORMAT-int8 with "
                                                 "--int8.")] = None,
    length: Annotated[int | None, typer.Option(
        "--length", metavar="N", min=1, show_default=False,
        help="Sequence length, for formats that fix it (executorch); default: the context.")] = None,
    most_loss: Annotated[float | None, typer.Option(
        "--max-loss-increase", metavar="NATS", min=0.0, show_default=False,
        help="Largest increase of the validation loss allowed with --int8; default 0.05.")] = None,
    no_decoder: Annotated[bool, typer.Option(
        "--no-decoder", help="Omit the decoder with a cache; for models that cannot decode token by token.",
    )] = False,
    pad: Annotated[bool, typer.Option(
        "--pad", help="Pad heads and feed-forwards with zeros to equal sizes in all layers, so that a stock class of "
                      "transformers (or llama.cpp) can hold the model; prints what it costs.")] = False,
    as_json: Json = False,
) -> None:
    """Export a subnet to ONNX, ExecuTorch and other formats.

    The export is compared with the plain model, on validation data if the run is available, and is not written if it
    differs. An earlier export is replaced.

    Example: [cyan]nas export first/7b9f --format onnx --int8[/cyan]
    """
    from nas.stages.export.request import ExportRequest
    from nas.stages.export.run import run
    from nas.stages.export.view import export_table
    from nas.terminal.progress import TerminalProgress

    request = ExportRequest(subnet, format_name, int8, Path(out) if out else None, length, most_loss,
                            no_decoder, pad)
    with TerminalProgress(screen(as_json)) as progress:
        result = run(request, progress)
    show_result(result.to_dict() if as_json else export_table(result))


@app.command(rich_help_panel=SUBNETS)
def measure(
    names: Annotated[list[str], typer.Argument(
        metavar="SUBNET|RUN...", autocompletion=_complete.runs_and_subnets, show_default=False,
        help="Folders of subnets, or RUN/KEY, where KEY is a prefix of a key; a run means all its subnets.")],
    devices: Annotated[list[str], typer.Option(
        "--device", metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
        help="Profiled device, or the folder of a profile; repeatable.")],
    phase: Annotated[str, typer.Option("--phase", metavar="PHASE", help="prefill or decode.")] = "prefill",
    budget: Annotated[str, typer.Option("--budget", metavar="TIME",
                                        help="Timing budget per device, such as 90s or 3m.")] = "1m",
    as_json: Json = False,
) -> None:
    """Measure subnets on devices and compare with predictions.

    Rerun to resume.

    Example: [cyan]nas measure first --device cpu --device cpu-onnxruntime[/cyan]
    """
    from nas.core.durations import parse_time
    from nas.stages.measure.request import MeasureRequest
    from nas.stages.measure.run import run
    from nas.stages.measure.view import measure_data, measure_table
    from nas.terminal.progress import TerminalProgress

    request = MeasureRequest(tuple(names), tuple(devices), phase, parse_time(budget))
    with TerminalProgress(screen(as_json)) as progress:
        result = run(request, progress)
    show_result(measure_data(result) if as_json else measure_table(result))


@app.command(rich_help_panel=SUBNETS)
def compare(
    names: Annotated[list[str], typer.Argument(
        metavar="SUBNET...", autocompletion=_complete.runs_and_subnets, show_default=False,
        help="Folders of subnets or imported models, or RUN/KEY, where KEY is a prefix of a key.")],
    devices: Annotated[list[str] | None, typer.Option(
        "--device", metavar="DEVICE", autocompletion=_complete.devices, show_default=False,
        help="Profiled device to measure latency on, or the folder of a profile; repeatable.")] = None,
    phase: Annotated[str, typer.Option("--phase", metavar="PHASE", help="prefill or decode.")] = "prefill",
    budget: Annotated[str, typer.Option("--budget", metavar="TIME",
                                        help="Timing budget per device, such as 90s or 3m.")] = "1m",
    split: Annotated[str, typer.Option("--split", metavar="SPLIT",
                                       help="Data to evaluate on: valid or test.")] = "valid",
    limit: Annotated[int | None, typer.Option(
        "--limit", metavar="N", min=1, show_default=False,
        help="Evaluate on a random sample of N examples; default: all.")] = None,
    seq_len: Annotated[int | None, typer.Option(
        "--seq-len", metavar="N", min=1, show_default=False,
        help="Sequence length for multiply-adds; default 128, or the shortest context.")] = None,
    out: Annotated[str, typer.Option("--out", metavar="DIR",
                                     help="Output folder.")] = "comparison",
    as_json: Json = False,
) -> None:
    """Compare models: quality, size and latency.

    Writes the table as CSV and JSON, and a plot as SVG and PNG.

    Example: [cyan]nas compare imported/minilm-sst2 first/7b9f --device cpu-onnxruntime[/cyan]
    """
    from nas.core.durations import parse_time
    from nas.stages.compare.request import CompareRequest
    from nas.stages.compare.run import run
    from nas.stages.compare.view import compare_table
    from nas.terminal.progress import TerminalProgress

    request = CompareRequest(tuple(names), tuple(devices or ()), phase, parse_time(budget), split, limit, seq_len,
                             Path(out))
    with TerminalProgress(screen(as_json)) as progress:
        result = run(request, progress)
    show_result(result.to_dict() if as_json else compare_table(result))
