"""Compares manifests with Kubernetes' own models: a line for each field that it does not know, that is missing, or that has
a value of another type.

The models come from the package lightkube-models, generated from Kubernetes' OpenAPI description. Only they are needed, not
the client that they are made for, so its base classes are stood in for."""

import dataclasses
import importlib
import json
import sys
import types
import typing

import yaml

core, schema = types.ModuleType("lightkube.core"), types.ModuleType("lightkube.core.schema")
schema.DictMixin, schema.dataclass, schema.field = object, dataclasses.dataclass, dataclasses.field
sys.modules.update({"lightkube.core": core, "lightkube.core.schema": schema})


def complaints(value, kind, place):
    """What is wrong with a value that should be of a type."""
    if typing.get_origin(kind) is typing.Union:
        either = [list(complaints(value, one, place)) for one in typing.get_args(kind) if one is not type(None)]
        yield from [] if [] in either else either[0]
        return
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        yield from object_complaints(value, kind, place)
    elif kind in (list, typing.List) or origin is list:
        if not isinstance(value, list):
            yield f"{place} is no list"
        else:
            for at, element in enumerate(value):
                yield from complaints(element, inner[0] if inner else object, f"{place}[{at}]")
    elif kind is dict or origin is dict:
        if not isinstance(value, dict):
            yield f"{place} is no map"
        else:
            for name, element in value.items():
                yield from complaints(element, inner[1] if inner else object, f"{place}.{name}")
    elif kind in (str, int, bool, float):
        is_right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        # Quantities and ports are texts or numbers, which the models call texts.
        if not is_right and not (kind is str and isinstance(value, int) and not isinstance(value, bool)):
            yield f"{place} is no {kind.__name__}"


def object_complaints(value, model, place):
    if not isinstance(value, dict):
        yield f"{place} is no {model.__name__}"
        return
    hints = typing.get_type_hints(model, vars(importlib.import_module(model.__module__)))
    fields = {field.metadata.get("json", field.name): field for field in dataclasses.fields(model)}
    for name, element in value.items():
        if name not in fields:
            yield f"{place}: {model.__name__} has no field {name}"
        else:
            yield from complaints(element, hints[fields[name].name], f"{place}.{name}")
    for name, field in fields.items():
        is_optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if name not in value and not is_optional:
            yield f"{place}: {model.__name__} needs the field {name}"


def model_of(document):
    """The model of a document; none for what kustomize and others read, and Kubernetes does not."""
    api = document.get("apiVersion", "")
    if "kustomize" in api or not api:
        return None
    group, _, version = api.rpartition("/")
    module = f"{group.split('.')[0] or 'core'}_{version}"
    return getattr(importlib.import_module(f"lightkube.models.{module}"), document["kind"])


for file in sys.argv[1:]:
    with open(file, encoding="utf-8") as text:
        for document in yaml.safe_load_all(text):
            model = model_of(document)
            if model is not None:
                print(json.dumps({"kind": document["kind"], "complaints": list(object_complaints(document, model, document["kind"]))}))
