"""The API in Markdown, written from the OpenAPI document: /llms.txt, /llms-full.txt, searches.

`/llms.txt` is the index (in the format of llmstxt.org), `/llms-full.txt` everything on one page,
and `Reference.search` what the tool `search_api_reference` of POST /mcp answers with.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from greenroom.http.describe.openapi import FORMAT_DESCRIPTION
from greenroom.http.describe.schemas import Schema

SUMMARY = "A multiplayer game backend that a studio runs itself: calls over HTTP, answers in JSON."
QUERY_WORDS_MAX = 16
"""Words of a search that are read; the rest is ignored."""

_WORDS = re.compile(r"[a-z0-9]+")
_IN_TITLE = 5
"""How often a word in the title counts, against once in the text."""

_OTHERS = {
    "/llms-full.txt": ("Full reference", "every operation with its fields, examples and errors"),
    "/openapi.json": ("OpenAPI 3.0.3", "the same for machines, with exact schemas"),
    "/docs": ("API reference page", "the same for people with a browser"),
    "/mcp": ("MCP server", "read-only tools over streamable HTTP; POST only"),
}


class ReferenceEntry(msgspec.Struct, frozen=True):
    """One operation's part of the reference."""

    area: str
    title: str
    """Return method and path."""
    summary: str
    text: str
    """Markdown that begins with the title's heading."""


class Reference:
    """The pages, made once.

    Attributes:
        operations: all operations.
        index: /llms.txt.
        full: /llms-full.txt.
    """

    def __init__(self, document: Schema) -> None:
        """Write the reference of an OpenAPI document."""
        self.operations = tuple(_operations(document))
        self.index = _index(document, self.operations).encode()
        self.full = _full(document, self.operations).encode()
        self._found = _weigh_words(self.operations)

    def search(self, query: str, limit: int) -> list[ReferenceEntry]:
        """Return the operations that contain words of the query, the best first.

        Args:
            query: words, in any order and case; operations with more of them come first.
            limit: how many operations at most.
        """
        words = dict.fromkeys(_WORDS.findall(query.lower()))
        hits: Counter[int] = Counter()
        weights: Counter[int] = Counter()
        for word in islice(words, QUERY_WORDS_MAX):
            for number, weight in self._found.get(word, {}).items():
                hits[number] += 1
                weights[number] += weight
        best = sorted(hits, key=lambda number: (-hits[number], -weights[number], number))
        return [self.operations[number] for number in best[:limit]]


def _weigh_words(operations: Iterable[ReferenceEntry]) -> dict[str, dict[int, int]]:
    """Return the operations that contain each word, with the word's weight there."""
    found: dict[str, dict[int, int]] = {}
    for number, operation in enumerate(operations):
        title = f"{operation.title} {operation.summary}"
        for text, weight in ((title, _IN_TITLE), (operation.text, 1)):
            for word in _WORDS.findall(text.lower()):
                weights = found.setdefault(word, {})
                weights[number] = weights.get(number, 0) + weight
    return found


def _index(document: Schema, operations: Iterable[ReferenceEntry]) -> str:
    lines = [f"# {document['info']['title']}", "", f"> {SUMMARY}", ""]
    lines += [document["info"]["description"].strip(), "", "## Reference", ""]
    lines += [f"- [{name}]({path}): {text}" for path, (name, text) in _OTHERS.items()]
    for area in (tag["name"] for tag in document["tags"]):
        items = [
            f"- [{operation.title}](/llms-full.txt#{_anchor(operation.title)}): {operation.summary}"
            for operation in operations
            if operation.area == area
        ]
        # an area without operations is a text of its own, such as that about realtime messages
        items = items or [f"- [{area}](/llms-full.txt#{_anchor(area)}): a section of its own"]
        lines += ["", f"## {area}", "", *items]
    return "\n".join(lines) + "\n"


def _full(document: Schema, operations: Iterable[ReferenceEntry]) -> str:
    parts = [f"# {document['info']['title']}", f"> {SUMMARY}"]
    parts += [document["info"]["description"].strip(), f"`format`: {FORMAT_DESCRIPTION}"]
    parts.append("## Tokens")
    schemes = document["components"]["securitySchemes"].values()
    rows = [f"| `{scheme['name']}` | {scheme['description']} |" for scheme in schemes]
    parts.append("\n".join(["| header | what |", "|---|---|", *rows]))
    by_area = {tag["name"]: tag["description"] for tag in document["tags"]}
    for area, text in by_area.items():
        parts += [f"## {area}", text]
        parts += [operation.text for operation in operations if operation.area == area]
    return "\n\n".join(parts) + "\n"


def _anchor(title: str) -> str:
    """Return the fragment that renderers of Markdown give a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _operations(document: Schema) -> Iterator[ReferenceEntry]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            title = f"{method.upper()} {path}"
            parts = [f"### {title}", f"{operation['summary']}."]
            parts += filter(None, [operation.get("description")])
            parts += _headers(operation, document)
            parts += _parameters(operation)
            parts += _body(operation)
            parts += _answers(operation, document)
            text = "\n\n".join(parts)
            yield ReferenceEntry(operation["tags"][0], title, operation["summary"], text)


def _headers(operation: Schema, document: Schema) -> Iterator[str]:
    schemes = document["components"]["securitySchemes"]
    (needed,) = operation["security"]
    yield "Headers: " + ", ".join(f"`{schemes[name]['name']}`" for name in needed)


def _parameters(operation: Schema) -> Iterator[str]:
    rows = [
        f"| `{parameter['name']}` | {parameter['in']} | {_cell(parameter.get('description', ''))} |"
        for parameter in operation["parameters"]
        if parameter["name"] != "format"  # every operation takes it, so the page tells it once
    ]
    if rows:
        yield "\n".join(["| parameter | in | what |", "|---|---|---|", *rows])


def _body(operation: Schema) -> Iterator[str]:
    if "requestBody" not in operation:
        return
    content = operation["requestBody"]["content"]["application/json"]
    properties = content["schema"].get("properties", {})
    required = content["schema"].get("required", ())
    rows = [
        f"| `{name}` | {_type(schema)} | {'yes' if name in required else 'no'} |"
        f" {_cell(schema.get('description', ''))} |"
        for name, schema in properties.items()
    ]
    yield f"Body: {operation['requestBody']['description'] or 'an object'}"
    if rows:
        yield "\n".join(["| field | type | required | what |", "|---|---|---|---|", *rows])
    yield _code(content["example"])


def _answers(operation: Schema, document: Schema) -> Iterator[str]:
    responses = operation["responses"]
    content = responses["200"]["content"]["application/json"]
    yield "Answer:"
    if "example" in content:
        yield _code(content["example"])
    else:
        yield _code(content["examples"]["plain"]["value"])
        yield "With `format=engine`:"
        yield _code(content["examples"]["engine"]["value"])
    schema = content["schema"]
    reference = schema.get("$ref") or schema["anyOf"][0]["$ref"]
    reply = document["components"]["schemas"][reference.rpartition("/")[2]]
    optional = [name for name in reply["properties"] if name not in reply["required"]]
    if optional:
        yield "May be absent: " + ", ".join(f"`{name}`" for name in optional)
    errors = [
        f"- {status}: {response['description']}"
        for status, response in responses.items()
        if status != "200"
    ]
    yield "Errors:\n\n" + "\n".join(errors)


def _type(schema: Schema) -> str:
    """Return a type in a word or two, without its leniencies."""
    if "anyOf" in schema:
        return _type(schema["anyOf"][0])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"] if value not in {None, ""})
    name: str = schema["type"]
    return f"{name} of {_type(schema['items'])}" if name == "array" else name


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(value: object) -> str:
    return f"```json\n{msgspec.json.format(msgspec.json.encode(value), indent=2).decode()}\n```"
