"""Beginnings of documents: metadata that has to be there, and sections that say what belongs into them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from knowledge_engine.frontmatter import compose_document
from knowledge_engine.models import Metadata

_DEVICE: Final = """
## Overview

What the device is, which variants and firmware this covers, and what a collector can read from it. Two or three
sentences: this is what an agent sees first, and all that it sees of a document that grew too long.

## Connection

Interface and defaults: port or baud rate, unit id, how many clients at once, how often it may be polled. Say what has
to be switched on in the device before it answers.

## Registers

Addresses in this document are **0-based protocol addresses**, as they go over the wire; a manual that counts from 1
shows each of them one higher. If nobody has tried which of the two the source means, give both columns, leave
`verified: unverified`, and tell below how to find out.

| Address (0-based) | In the manual (1-based) | Name | Type | Unit | Scaling |
|---|---|---|---|---|---|
| 0 | 1 | example value | uint16 | °C | raw / 10 |

Below the table: byte and word order, and which values may be written.

## Pitfalls

What goes wrong in practice, each with its symptom: values that stay frozen, a sign or a scale that differs between
firmwares, requests that are too long.

## Verification

One value that the reader can compare with the display of the device, to know that address base, word order and
scaling are right. Then who tried what, on which firmware.

## Configuration

Ready to paste, in the form that the application reads. Replace every value that depends on the site.

```yaml
driver: modbus-tcp
host: 192.0.2.10
port: 502
unit_id: 1
address_base: 0
registers:
  - name: example_value
    address: 0
    type: uint16
    scale: 0.1
    unit: "°C"
```
"""
_PROTOCOL: Final = """
## Overview

What the protocol is for, where it is met, and which of its variants this covers.

## Addressing

How a value is named on the wire. State the base explicitly: whether addresses count from 0 or from 1, and how the two
are told apart in manuals.

## Data types

Sizes, byte and word order, how texts, times and quality are encoded. A table is read faster than prose.

## Limits

How long a request may be, how many at once, timeouts, and what is billed or blocked beyond that.

## Pitfalls

Error codes and symptoms, each with its cause and what to do.
"""
_GUIDE: Final = """
## Overview

Which question this answers, for whom, and what the reader has to have at hand.

## Steps

1. One action a step, with what is to be seen when it worked.
2. Then the next one.

## When it does not work

Symptoms, each with its likely cause and the step to go back to.
"""
_BODIES: Final = MappingProxyType({"device": _DEVICE, "protocol": _PROTOCOL})
_SUMMARY: Final = "Replace this: what the document covers, for which variants, and whether its data was tried."
_WORDS: Final[list[str]] = ["words that questions hold", "in lower case"]


def template(doc_id: str, kind: str, title: str | None = None) -> bytes:
    """A document of that kind; kinds of an application's own look like a guide.

    Raises:
        InvalidArgumentError: For text that UTF-8 cannot hold.
    """
    parts = [name for part in doc_id.split(".") if (name := part.replace("_", " ").strip())] or [doc_id]
    names = [name[:1].upper() + name[1:] for name in parts[1:] or parts]
    metadata: Metadata = {"id": doc_id, "title": title or " ".join(names), "kind": kind, "summary": _SUMMARY}
    if kind in _BODIES:
        metadata["protocol"] = "modbus" if kind == "device" else names[0].lower()
    if kind == "device":
        metadata |= {
            "drivers": ["modbus-tcp"],
            "vendor": names[0],
            "model": " ".join(names[1:]) or names[0],
            "equipment_type": "sensor",
        }
    metadata |= {"keywords": [*_WORDS], "aliases": ["Other spellings of the name"], "verified": "unverified"}
    return compose_document(metadata, _BODIES.get(kind, _GUIDE))
