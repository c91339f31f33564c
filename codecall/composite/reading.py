"""Reads definitions from files, folders and Python values, in each of the shapes that they may have:

    one definition                            name, description, steps …
    a list of definitions
    a mapping or a VirtualMCPServer           compositeTools, or spec.config.compositeTools and compositeToolRefs
    a VirtualMCPCompositeToolDefinition       spec is the definition
    a script                                  the header at its top is the definition

Everything that is wrong is found at once. A definition with a finding is left out, and the others are kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, cast

from codecall.composite.checks import check_together, check_workflow
from codecall.composite.definition import Definition, Finding, ScriptDefinition, Workflow
from codecall.composite.fields import Findings, path_text
from codecall.composite.parsing import parse_workflow
from codecall.composite.scripts.header import RECORDING_SUFFIX, TESTS_SUFFIX, parse_script, read_header
from codecall.errors import OptionsError
from codecall.jsonio.documents import SUFFIXES, Document, read_documents, read_text
from codecall.sandbox.languages import SCRIPT_LANGUAGES
from codecall.wording import nearest

MAX_FILES: Final = 1_000
"""Files of one folder."""
MAX_DEFINITIONS: Final = 1_000
"""Definitions that are read together."""
MAX_NEAR: Final = 3
"""Near names of one that is wrong."""
SERVER_KIND: Final = "VirtualMCPServer"
DEFINITION_KIND: Final = "VirtualMCPCompositeToolDefinition"

DefinitionSource = str | os.PathLike[str] | Mapping[str, object] | Sequence[object]
"""A file, a folder, or definitions as Python values."""

_Path = tuple[str | int, ...]


class ReadDefinitions(NamedTuple):
    """What was read."""

    tools: tuple[Definition, ...]
    """Those without findings, in their order."""
    findings: tuple[Finding, ...]
    """What is wrong with the others."""
    invalid: tuple[str, ...]
    """Names of those with findings, as far as they have names."""
    places: Mapping[str, Findings]
    """For each of `tools`, by name, what adds findings where it stands."""
    wrong: tuple[tuple[Definition, Findings], ...] = ()
    """The others, as far as they can be read, each with its findings."""

    @property
    def workflows(self) -> tuple[Workflow, ...]:
        """Those of `tools` that are workflows."""
        return tuple(tool for tool in self.tools if isinstance(tool, Workflow))

    @property
    def scripts(self) -> tuple[ScriptDefinition, ...]:
        """Those of `tools` that are scripts."""
        return tuple(tool for tool in self.tools if isinstance(tool, ScriptDefinition))

    def served(self, *, starlark: bool) -> ReadDefinitions:
        """What of it a server serves: without its option `starlark` no scripts in that language, which become findings.

        Args:
            starlark: Whether it has the option.
        """
        refused = [] if starlark else [tool for tool in self.scripts if tool.language == "starlark"]
        for tool in refused:
            problem = "the script is Starlark, which this server runs with the option `starlark` only"
            self.places[tool.name].add("", problem)
        return self._replace(
            tools=tuple(tool for tool in self.tools if tool not in refused),
            findings=(*self.findings, *(finding for tool in refused for finding in self.places[tool.name].found)),
            invalid=(*self.invalid, *(tool.name for tool in refused)),
            wrong=(*self.wrong, *((tool, self.places[tool.name]) for tool in refused)),
        )

    def near_names(self, name: str) -> list[str]:
        """Up to `MAX_NEAR` names that may be meant by one that is none: those that are alike, else those that have it
        in them. The names of definitions with findings are among them."""
        known = {_folded(each): each for each in (*self.invalid, *(tool.name for tool in self.tools))}
        word = _folded(name)
        near = nearest(word, known, limit=MAX_NEAR) or [each for each in known if word and word in each]
        return [known[each] for each in near[:MAX_NEAR]]


def _folded(name: str) -> str:
    """A name as it is compared with another: whatever its letters' case, and what joins its words."""
    return name[:100].casefold().replace("-", "_")


@dataclass(frozen=True, slots=True)
class _Definition:
    """One definition that was found."""

    data: object
    findings: Findings
    resource: str = ""
    """`metadata.name` of its resource."""
    script: str | None = None
    """The text of the script whose header `data` is."""
    suffix: str = ""
    """The ending of the file of that script."""

    def parse(self) -> Definition | None:
        """The composite tool; None where its form is wrong, which `findings` says."""
        if self.script is None:
            return parse_workflow(self.data, self.findings)
        return parse_script(self.script, self.data, self.suffix, self.findings)


def read_definitions(sources: Iterable[DefinitionSource]) -> ReadDefinitions:
    """Read all definitions of these files, folders and values, and check them.

    Raises:
        OptionsError: a file or folder that was named is not there.
    """
    reader = _Reader()
    for source in sources:
        reader.read(source)
    return reader.checked()


class _Reader:
    def __init__(self) -> None:
        self._found: list[_Definition] = []
        self._references: list[tuple[str, str, Findings]] = []
        """Names of `compositeToolRefs`, each with the path that it stands at."""
        self._broken: list[Finding] = []

    def read(self, source: DefinitionSource) -> None:
        """Read one source."""
        if isinstance(source, (str, os.PathLike)):
            path = Path(source)
            if path.is_dir():
                files = sorted(file for file in path.rglob("*") if _is_definition(file))
                if len(files) > MAX_FILES:
                    raise OptionsError(f"{path}: {len(files):,} files of definitions; at most {MAX_FILES:,} are read")
                for file in files:
                    self._read_file(file)
            elif path.exists():
                self._read_file(path)
            else:
                raise OptionsError(
                    f"composite tools: there is no file or folder {path}",
                    hint="Paths are relative to the folder of the configuration, or to the current one.",
                )
        else:
            self._add(Document(cast("object", source), {}), "")

    def _read_file(self, file: Path) -> None:
        try:
            if file.suffix.lower() in SCRIPT_LANGUAGES:
                self._add_script(file)
                return
            documents = read_documents(file)
        except OptionsError as failure:
            findings = Findings(str(file))
            findings.add("", failure.message.removeprefix(f"{file}: ").removeprefix(f"{file}"))
            self._broken += findings.found
            return
        for document in documents:
            self._add(document, str(file))

    def _add(self, document: Document, file: str) -> None:
        data = document.data
        if data is None:
            return
        if isinstance(data, Mapping):
            mapping = cast("Mapping[str, object]", data)
            kind, spec = mapping.get("kind"), mapping.get("spec")
            if kind == DEFINITION_KIND:
                metadata = mapping.get("metadata")
                named = cast("Mapping[str, object]", metadata).get("name") if isinstance(metadata, Mapping) else ""
                self._found.append(_Definition(spec, Findings(file, document.lines, ("spec",)), str(named or "")))
                return
            if kind == SERVER_KIND or (kind is None and isinstance(spec, Mapping)):
                self._add_server(mapping, ("spec", "config"), document, file)
                return
            if kind is not None:
                self._problem(file, document, ("kind",), f"{kind!r:.80} is neither {SERVER_KIND} nor {DEFINITION_KIND}")
                return
            if "compositeTools" in mapping or "compositeToolRefs" in mapping:
                self._add_server(mapping, (), document, file)
                return
        if isinstance(data, (list, tuple)):
            self._add_list(cast("Sequence[object]", data), (), document, file)
            return
        self._found.append(_Definition(document.data, Findings(file, document.lines)))

    def _add_script(self, file: Path) -> None:
        text = read_text(file)
        header = read_header(file, text)
        if header is None:
            raise OptionsError(f"{file}: a script that is a tool begins with a comment that has its header in YAML")
        findings = Findings(str(file), header.lines)
        self._found.append(_Definition(header.data, findings, script=text, suffix=file.suffix))

    def _add_server(self, data: Mapping[str, object], where: _Path, document: Document, file: str) -> None:
        """The definitions of a mapping that holds more than them; its other keys are not ours."""
        config: object = data
        for key in where:
            config = config.get(str(key)) if isinstance(config, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if not isinstance(config, Mapping):
            self._problem(file, document, where, "a mapping with compositeTools or compositeToolRefs is needed")
            return
        entries = cast("Mapping[str, object]", config)
        if not where and (unknown := [key for key in entries if key not in ("compositeTools", "compositeToolRefs")]):
            near = nearest(unknown[0], ("compositeTools", "compositeToolRefs"))
            suggestion = f" (did you mean {near[0]}?)" if near else ""
            self._problem(file, document, (unknown[0],), f"unknown key beside compositeTools{suggestion}")
        tools, refs = entries.get("compositeTools"), entries.get("compositeToolRefs")
        if isinstance(tools, (list, tuple)):
            self._add_list(cast("Sequence[object]", tools), (*where, "compositeTools"), document, file)
        elif tools is not None:
            self._problem(file, document, (*where, "compositeTools"), "a list of definitions is needed")
        if isinstance(refs, (list, tuple)):
            for number, ref in enumerate(cast("Sequence[object]", refs)):
                name = cast("Mapping[str, object]", ref).get("name") if isinstance(ref, Mapping) else None
                path = (*where, "compositeToolRefs", number)
                if isinstance(name, str):
                    self._references.append((name, path_text(path), Findings(file, document.lines)))
                else:
                    self._problem(file, document, path, "a mapping with the name of a resource is needed")
        elif refs is not None:
            self._problem(file, document, (*where, "compositeToolRefs"), "a list of names is needed")
        if tools is None and refs is None and where:
            self._problem(file, document, where, "has neither compositeTools nor compositeToolRefs")

    def _add_list(self, items: Sequence[object], base: _Path, document: Document, file: str) -> None:
        for number, item in enumerate(items):
            self._found.append(_Definition(item, Findings(file, document.lines, (*base, number))))

    def _problem(self, file: str, document: Document, path: _Path, message: str) -> None:
        findings = Findings(file, document.lines)
        findings.add(path_text(path), message)
        self._broken += findings.found

    def checked(self) -> ReadDefinitions:
        """Check what was read."""
        if len(self._found) > MAX_DEFINITIONS:
            raise OptionsError(
                f"composite tools: {len(self._found):,} definitions; at most {MAX_DEFINITIONS:,} are read"
            )
        served: dict[str, tuple[Definition, Findings]] = {}
        parsed: list[tuple[Definition, Findings]] = []
        for definition in self._found:
            tool = definition.parse()
            if tool is None:
                continue
            parsed.append((tool, definition.findings))
            if isinstance(tool, Workflow):
                check_workflow(tool, definition.findings)
            if tool.name in served:
                definition.findings.add("name", f"there are two composite tools of the name {tool.name!r}")
            elif tool.name:
                served[tool.name] = tool, definition.findings
        check_together(served)
        resources = {definition.resource for definition in self._found if definition.resource}
        for name, path, findings in self._references:
            if name not in resources:
                near = nearest(name, tuple(resources))
                findings.add(
                    path,
                    f"no {DEFINITION_KIND} of the name {name!r:.80} is among the files given"
                    + (f"; did you mean {near[0]}?" if near else ""),
                )
                self._broken += findings.found
        found = [*self._broken, *(finding for definition in self._found for finding in definition.findings.found)]
        valid = tuple(tool for tool, findings in served.values() if not findings.found)
        names = dict.fromkeys(definition.findings.tool for definition in self._found if definition.findings.found)
        places = {name: findings for name, (_, findings) in served.items()}
        wrong = tuple((tool, findings) for tool, findings in parsed if findings.found)
        return ReadDefinitions(valid, tuple(found), tuple(filter(None, names)), places, wrong)


def _is_definition(file: Path) -> bool:
    """Whether a file of a folder is read."""
    known = file.suffix.lower() in (*SCRIPT_LANGUAGES, *SUFFIXES)
    return known and not file.name.endswith((TESTS_SUFFIX, RECORDING_SUFFIX)) and file.is_file()
