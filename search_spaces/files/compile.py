"""A parsed space file -> SearchSpace: genes are named, and every combination is checked.

After this no genotype can decode to an impossible architecture, so sampling never has to retry.
"""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from search_spaces import registry as kinds
from search_spaces import residual as residuals
from search_spaces.block import head_facts
from search_spaces.errors import Fault, InputError
from search_spaces.files.combination_checks import BlockContext, part_faults
from search_spaces.files.schema import DepthFile, ScalingFile, SpaceFile, StackFile
from search_spaces.kind import FAMILIES, NORM_EPS, Value
from search_spaces.space.choices import alternatives, first_block, scaled_at, scalings
from search_spaces.space.dimensions import Gene, PartSpace, ScalingSpace, StackSpace
from search_spaces.space.layers import Scaling, Sharing
from search_spaces.space.search_space import SearchSpace

SETTINGS = ("width", "norm", "placement", "positions", "bias", "share_inputs", "residual")
MOST_SEARCHED_SLOTS = 16
MOST_SETTINGS = 10_000


def compile_space(file: SpaceFile, where: str) -> SearchSpace:
    """The space a file describes. Raises InputError with all its faults."""
    compiler = _Compiler(file)
    space = compiler.space(where)
    faults = compiler.faults + (check(space) if space else [])
    if faults or space is None:
        raise InputError(where, faults)
    return space


class _Compiler:
    """Turns lists into genes and collects faults.

    A kind with a fault is skipped, so that the rest can be checked and one report contains all faults.
    """

    def __init__(self, file: SpaceFile) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self.shapeless = False
        """Whether a stack or the scaling is too damaged to determine the position of blocks."""

    def space(self, where: str) -> SearchSpace | None:
        """The space without faulty kinds; None if it cannot be built."""
        file = self.file
        wanted = FAMILIES[file.family]
        for name in ("encoder", "decoder"):
            if (getattr(file, name) is not None) != (name in wanted):
                message = "is missing" if name in wanted else f"family {file.family} has no {name}"
                self.faults.append(Fault(name, message))
                self.shapeless |= name in wanted
        if file.family != "seq2seq" and False in file.share_inputs:
            self.faults.append(Fault("share_inputs", "false is allowed for the family seq2seq only"))
        settings = self._settings()
        embedding = self._part("embedding", "embedding", "embedding", file.embedding, None)
        head = self._part("head", "head", "head", file.head, None)
        for kind in head.dims:
            if file.family != "encoder" and not kinds.get(kind).over_words:
                message = f"returns no token logits, which the family {file.family} needs"
                self.faults.append(Fault(f"head.{kind}", message))
        for name, part in (("n_classes", head), ("n_types", embedding)):
            if getattr(file, name) and part.dims and not any(name in kinds.get(kind).facts for kind in part.dims):
                message = f"{getattr(file, name)} has no effect: no listed {part.role} uses it; remove it"
                self.faults.append(Fault(name, message))
        scaling = self._scaling(file.scaling) if file.scaling else None
        stacks = {name: self._stack(name, getattr(file, name)) for name in wanted if getattr(file, name)}
        if self.shapeless:
            return None
        return SearchSpace(
            name=file.name, description=file.description, family=file.family, vocab_size=file.vocab_size,
            context=file.context, n_classes=file.n_classes, n_types=file.n_types, settings=settings,
            embedding=embedding, head=head, stacks=stacks, scaling=scaling, source=where,
            norm_eps=self._norm_eps(),
        )

    def _norm_eps(self) -> float:
        """0 where no norm of the space would differ."""
        given, usual = self.file.norm_eps or 0.0, {NORM_EPS.get(name) for name in self.file.norm} - {None}
        if given and given in usual and len(usual) > 1:
            self.faults.append(Fault("norm_eps", f"{given:g} is the default of one of the norms; leave it out, or "
                                                 "list one norm only"))
        return 0.0 if not usual or usual == {given} else given

    def _settings(self) -> dict[str, Gene]:
        """The genes of the whole architecture.

        If only the default residual is allowed, it is not a gene, so that spaces without this key keep the random
        samples of earlier versions.
        """
        settings = {name: self._plain(name, getattr(self.file, name)) for name in SETTINGS}
        unknown = [name for name in self.file.residual if name not in residuals.names()]
        self.faults += [Fault("residual", f"unknown {name!r}; installed: {', '.join(residuals.names())}")
                        for name in unknown]
        if unknown or self.file.residual == [residuals.PLAIN]:
            del settings["residual"]
        return settings

    def _plain(self, name: str, values: list[Any]) -> Gene:
        self._distinct(name, values)
        return Gene(name, (tuple(values),))

    def _distinct(self, key: str, values: Iterable[Value]) -> None:
        seen: set[tuple[bool, Value]] = set()
        for value in values:
            if (isinstance(value, bool), value) in seen:
                self.faults.append(Fault(key, f"{value!r} is listed twice"))
            seen.add((isinstance(value, bool), value))

    def _scaling(self, file: ScalingFile) -> ScalingSpace:
        for text in file.depths:
            self.shapeless |= self._try("scaling.depths", Scaling.parse_depths, text) is None
        return ScalingSpace(self._plain("scaling.depths", file.depths),
                            self._plain("scaling.multiplier", file.multiplier),
                            self._plain("scaling.order", file.order))

    def _try(self, key: str, parse: Any, text: object) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            self.faults.append(Fault(key, str(error)))
            return None

    def _stack(self, name: str, file: StackFile) -> StackSpace:
        layer_types = {
            layer_name: {role: self._part(role, f"{name}.layers.{layer_name}.{role}",
                                          f"{name}.{{slot}}.{layer_name}.{role}", table, file.slots)
                         for role, table in (("mixer", layer.mixer), ("cross", layer.cross), ("ffn", layer.ffn),
                                             ("between", layer.between)) if table is not None}
            for layer_name, layer in file.layers.items()
        }
        needs_cross = name == "decoder" and self.file.family == "seq2seq"
        for layer_name, parts in layer_types.items():
            if ("cross" in parts) != needs_cross:
                message = ("is missing: a seq2seq decoder attends to the source" if needs_cross
                           else "is allowed in a seq2seq decoder only")
                self.faults.append(Fault(f"{name}.layers.{layer_name}.cross", message))
        if file.depth and file.depth.keep == "searched" and file.sharing != ["none"]:
            self.faults += [Fault(f"{name}.layers.{layer_name}.between", "cannot be combined with keep: searched and "
                                  "shared layers; use keep: first or every_other, or sharing: none")
                            for layer_name, parts in layer_types.items() if "between" in parts]
        chosen = file.choose if file.choose is not None else list(layer_types)
        layer_type = self._gene(f"{name}.choose", f"{name}.{{slot}}.layer", chosen, file.slots)
        self._known(f"{name}.choose", layer_type, list(layer_types), "layer types")
        before = len(self.faults)
        keep, depth, at_least = self._depth(name, file)
        self.shapeless |= len(self.faults) > before
        deepest = max(map(int, depth.choices())) if depth else file.slots
        for text in file.sharing:
            sharing = self._try(f"{name}.sharing", Sharing.parse, text)
            if sharing and sharing.group and sharing.group > deepest:
                message = f"{text!r} has groups longer than the maximum depth {deepest}"
                self.faults.append(Fault(f"{name}.sharing", message))
        return StackSpace(
            name=name, slots=file.slots, keep=keep, depth=depth,
            kept=Gene(f"{name}.{{slot}}.keep", ((False, True),)), at_least=at_least,
            sharing=self._plain(f"{name}.sharing", file.sharing), layer_type=layer_type, layer_types=layer_types,
        )

    def _depth(self, name: str, file: StackFile) -> tuple[str, Gene | None, int]:
        rule = file.depth
        if rule is None:
            return "all", Gene(f"{name}.depth", ((file.slots,),)), 1
        key = f"{name}.depth"
        if rule.keep == "searched":
            return "searched", None, self._searched(key, rule, file.slots)
        if rule.at_least != 1:
            self.faults.append(Fault(f"{key}.at_least", "requires keep: searched; use layers instead"))
        if rule.layers is None:
            message = f"is missing; allowed: a list of whole numbers from 1 to {file.slots}, or scaled"
            self.faults.append(Fault(f"{key}.layers", message))
            return rule.keep, None, 1
        if rule.layers == "scaled":
            if not self.file.scaling:
                self.faults.append(Fault(f"{key}.layers", "scaled needs the key scaling"))
            return rule.keep, None, 1
        for depth in rule.layers:
            if depth > file.slots:
                self.faults.append(Fault(f"{key}.layers", f"{depth} is more than the {file.slots} slots"))
        return rule.keep, self._plain(key, list(rule.layers)), 1

    def _searched(self, key: str, rule: DepthFile, slots: int) -> int:
        if rule.layers is not None:
            self.faults.append(Fault(f"{key}.layers", "cannot be combined with keep: searched; use at_least"))
        if rule.at_least > slots:
            self.faults.append(Fault(f"{key}.at_least", f"{rule.at_least} is more than the {slots} slots"))
        if slots > MOST_SEARCHED_SLOTS:
            message = f"searched works up to {MOST_SEARCHED_SLOTS} slots, found {slots}; use every_other"
            self.faults.append(Fault(key, message))
        return rule.at_least

    def _part(self, role: str, key: str, name: str, table: Mapping[str, Any], slots: int | None) -> PartSpace:
        listed = [kind for kind in table if kind != "choose"]
        installed = kinds.names(role)
        if not listed:
            self.faults.append(Fault(key, f"is empty; allowed: {', '.join(installed)}"))
        dims: dict[str, dict[str, Gene]] = {}
        for kind in listed:
            if kind not in installed:
                self.faults.append(Fault(f"{key}.{kind}", f"unknown {role} kind; installed: {', '.join(installed)}"))
            elif table[kind] is not None and not isinstance(table[kind], dict):
                message = f"must be a table of dims, found {reprlib.repr(table[kind])}"
                self.faults.append(Fault(f"{key}.{kind}", message))
            else:
                before = len(self.faults)
                genes = self._dims(kind, f"{key}.{kind}", f"{name}.{kind}", table[kind] or {}, slots)
                if len(self.faults) == before:
                    dims[kind] = genes
        gene = self._gene(f"{key}.choose", f"{name}.kind", table.get("choose", listed or ["?"]), slots)
        self._known(f"{key}.choose", gene, listed, "kinds listed here")
        return PartSpace(role, gene, dims)

    def _known(self, key: str, gene: Gene, names: list[str], what: str) -> None:
        chosen = {value for values in gene.values for value in values} - {"?"}
        for name in sorted(chosen - set(names), key=str):
            self.faults.append(Fault(key, f"{name!r} is not one of the {what}: {', '.join(names)}"))
        for name in names:
            if chosen and name not in chosen:
                self.faults.append(Fault(key, f"{name!r} is listed but never chosen; remove it or choose it"))

    def _dims(self, kind: str, key: str, name: str, table: Mapping[str, Any], slots: int | None) -> dict[str, Gene]:
        declared = {dim.name: dim for dim in kinds.get(kind).dims}
        for unknown in [dim for dim in table if dim not in declared]:
            self.faults.append(Fault(f"{key}.{unknown}", f"unknown dim; allowed: {', '.join(declared) or 'none'}"))
        genes = {}
        for dim in declared.values():
            if dim.name not in table and dim.optional:
                continue  # no gene, so that spaces that do not mention it draw as before it existed
            if dim.name not in table and dim.default is None:
                self.faults.append(Fault(f"{key}.{dim.name}", f"is missing; allowed: {dim.allowed}"))
                continue
            gene = self._gene(f"{key}.{dim.name}", f"{name}.{dim.name}", table.get(dim.name, dim.default), slots)
            for value in {(type(value), value): value for values in gene.values for value in values}.values():
                if not dim.accepts(value):
                    self.faults.append(Fault(f"{key}.{dim.name}", f"{value!r} is not allowed; allowed: {dim.allowed}"))
                elif "scaled" in "".join(dim.needs(value)) and not self.file.scaling:
                    self.faults.append(Fault(f"{key}.{dim.name}", "scaled needs the key scaling"))
            genes[dim.name] = gene
        return genes

    def _gene(self, key: str, name: str, given: object, slots: int | None) -> Gene:
        """A gene from `value`, `[values]`, `{global: [values]}` or `{by_slot: [[values], ...]}`."""
        if isinstance(given, dict):
            if set(given) == {"global"} and slots:
                return Gene(name.replace("{slot}.", ""), (self._values(key, given["global"]),))
            if set(given) == {"by_slot"} and slots:
                lists = given["by_slot"]
                if not isinstance(lists, list) or len(lists) != slots:
                    actual = len(lists) if isinstance(lists, list) else reprlib.repr(lists)
                    message = f"by_slot needs a list of {slots} entries, one per slot; found {actual}"
                    self.faults.append(Fault(key, message))
                    return Gene(name, ((),))
                return Gene(name, tuple(self._values(f"{key}.by_slot.{i}", values) for i, values in enumerate(lists)))
            allowed = "a value or a list" + (", {global: [...]} or {by_slot: [[...], ...]}" if slots else "")
            self.faults.append(Fault(key, f"{reprlib.repr(given)} is not allowed; allowed: {allowed}"))
            return Gene(name, ((),))
        return Gene(name, (self._values(key, given),))

    def _values(self, key: str, given: object) -> tuple[Value, ...]:
        values = given if isinstance(given, list) else [given]
        if not values:
            self.faults.append(Fault(key, "is empty; give at least one value"))
        wrong = [value for value in values if not isinstance(value, (int, float, str))]
        for value in wrong:
            self.faults.append(Fault(key, f"{reprlib.repr(value)} is not a number, string or boolean"))
        good = tuple(value for value in values if isinstance(value, (int, float, str)))
        self._distinct(key, good)
        return good


def check(space: SearchSpace) -> list[Fault]:
    """Faults that depend on combinations of dims, facts and positions."""
    faults: list[Fault] = []
    n_settings = 1
    for gene in space.settings.values():
        n_settings *= len(gene.choices())
    if n_settings > MOST_SETTINGS:
        return [Fault("", f"{n_settings} combinations of {', '.join(SETTINGS)}; at most {MOST_SETTINGS} are allowed")]
    every = [scaling for _, scaling in scalings(space)]
    for name, stack in space.stacks.items():
        blocks = [scaling.n_max for scaling in every if scaling and stack.depth is None and stack.keep != "searched"]
        if blocks and max(blocks) > stack.slots:
            return [Fault(f"{name}.slots", f"{stack.slots} is less than the {max(blocks)} blocks of scaling.depths")]
    settings = space.every_settings()
    firsts = {first_block(scaling) for scaling in every}
    causal = space.family != "encoder"  # an embedding is read by all stacks
    ends = [BlockContext(space.facts(chosen, causal), extra) for chosen in settings for extra in firsts]
    faults += part_faults(space.embedding, "embedding", None, ends)
    if not faults and set(space.embedding.kind.choices()) == set(space.embedding.dims):
        faults += part_faults(space.head, "head", None, list(_head_known(space, settings, firsts)))
    for name, stack in space.stacks.items():
        known = [BlockContext(space.facts(chosen, name == "decoder"), extra) for chosen in settings
                 for extra in _positions(stack, every)]
        for layer_type, parts in stack.layer_types.items():
            for role, part in parts.items():
                faults += part_faults(part, f"{name}.layers.{layer_type}.{role}", stack.slots, known)
    return faults


def _head_known(space: SearchSpace, settings: list[dict[str, Value]], firsts: set[Any]) -> Iterator[BlockContext]:
    seen = set()
    for chosen, extra in itertools.product(settings, firsts):
        for embedding in alternatives(space.embedding, None, space.facts(chosen, False), extra, ()):
            known = BlockContext(head_facts(space.facts(chosen, False), embedding), extra)
            if known not in seen:
                seen.add(known)
                yield known


def _positions(stack: StackSpace, every: list[Scaling | None]) -> set[Any]:
    """Every depth and multiplier that scaling can give a block of the stack."""
    positions = set()
    for scaling in every:
        depths = {len(kept) for kept in stack.kept_sets(scaling)}
        positions |= {scaled_at(scaling, i, depth) for depth in depths for i in range(depth)}
    return positions
