"""The manifests in docs/howto/kubernetes, against the schema of Kubernetes itself; no cluster is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml  # it comes with moto

MANIFESTS = sorted(Path(__file__).parents[2].glob("docs/howto/kubernetes/*.yaml"))
SCHEMA = json.loads(Path(__file__).with_name("kubernetes.json").read_text())

each = pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)


def errors(value: Any) -> list[str]:
    """Where the value is not what Kubernetes takes."""
    kind = {"DaemonSet": "apps.v1.DaemonSet", "Pod": "core.v1.Pod"}[value["kind"]]
    schema = {"$ref": f"#/$defs/io.k8s.api.{kind}", "$defs": SCHEMA["$defs"]}
    return [f"{one.json_path}: {one.message}" for one in jsonschema.Draft7Validator(schema).iter_errors(value)]


def pod(value: Any) -> Any:
    return value["spec"] if value["kind"] == "Pod" else value["spec"]["template"]["spec"]


def test_there_is_one_for_speedd_and_one_for_executors() -> None:
    assert [path.name for path in MANIFESTS] == ["spark-executor.yaml", "speedd-daemonset.yaml"]


@each
def test_a_manifest_is_what_kubernetes_takes(manifest: Path) -> None:
    assert errors(yaml.safe_load(manifest.read_text())) == []


@each
def test_a_field_that_is_misspelt_is_noticed(manifest: Path) -> None:
    value = yaml.safe_load(manifest.read_text())
    pod(value)["hostPid"] = pod(value).pop("hostPID")
    assert "'hostPid' was unexpected" in "".join(errors(value))


@each
def test_what_a_container_mounts_is_a_volume_of_its_pod(manifest: Path) -> None:
    spec = pod(yaml.safe_load(manifest.read_text()))
    containers = [*spec["containers"], *spec.get("initContainers", [])]
    mounted = {mount["name"] for container in containers for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["volumes"]}


def test_speedd_and_executors_are_of_one_user_and_see_one_root_and_key() -> None:
    executor, speedd = (pod(yaml.safe_load(path.read_text())) for path in MANIFESTS)
    assert executor["securityContext"] == speedd["securityContext"]
    assert executor["hostPID"] and speedd["hostPID"]
    names = {volume["name"] for volume in executor["volumes"]}
    mounts = [
        {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"] if mount["name"] in names}
        for spec in (executor, speedd)
    ]
    assert mounts[0] == mounts[1]
