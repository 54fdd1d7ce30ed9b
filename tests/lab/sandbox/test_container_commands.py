"""The broker of containers reads the command lines of verifiers and refuses every other one."""

from __future__ import annotations

import ast
import inspect
import textwrap

import pytest

from prime_lab_mcp.lab.sandbox.containers import commands
from prime_lab_mcp.lab.sandbox.containers.commands import RefusedCommand, read_command

NAME = f"vf-{'0a' * 16}"
OTHER = f"vf-{'0b' * 16}"
IMAGE = "docker.io/library/python:3.11-slim"
LABEL = ["--label", "verifiers.run=eval-1"]
NETWORK = ["--network", "bridge", "--publish", "127.0.0.1::8000"]
START = [*LABEL, "--detach", *NETWORK, "--http-proxy=false"]
END = ["--entrypoint", "sleep", "--name", NAME, IMAGE, "infinity"]


def cut_script() -> str:
    """The script of the installed verifiers that restricts the network of a container."""
    from verifiers.v1.runtimes.docker import DockerRuntime

    tree = ast.parse(textwrap.dedent(inspect.getsource(DockerRuntime.prepare_execution)))
    scripts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "script"
    ]
    return str(ast.literal_eval(scripts[0]))


def test_what_verifiers_writes_is_read() -> None:
    assert read_command(["version"]) == commands.Version()
    assert read_command(["run", *START, *END]) == commands.Start(NAME, IMAGE)
    limits = ["--cpus", "1.0", "--memory", "2.0g"]
    started = read_command(["run", *START[:-1], *limits, "--http-proxy=false", "--env", "A=b c", "--env", "B=", *END])
    assert started == commands.Start(NAME, IMAGE, ("A=b c", "B="), "1.0", "2.0g")
    assert read_command(["inspect", "--format", "{{json .Config}}", NAME]) == commands.Inspect(NAME)
    assert read_command(["port", NAME, "8000/tcp"]) == commands.PublishedPort(NAME)
    assert read_command(["rm", "--force", NAME]) == commands.Remove(NAME)
    assert read_command(["image", "inspect", commands.NETWORK_IMAGE]) == commands.FindNetworkImage()
    built = ["build", "--tag", commands.NETWORK_IMAGE, "--file", "-", "/tmp/vf-network-x"]
    assert read_command(built) == commands.BuildNetworkImage()
    ran = read_command(["exec", "-i", "--env", "A=1", "--user", "0", "--workdir", "/app", NAME, "sh", "-c", "ls -l"])
    assert ran == commands.Execute(NAME, ("sh", "-c", "ls -l"), "/app", ("A=1",), "0", stdin=True)
    assert read_command(["exec", "--detach", NAME, "true"]) == commands.Execute(NAME, ("true",), "/", detached=True)


def test_the_script_of_the_installed_verifiers_restricts_a_network_and_no_other_script_does() -> None:
    cut = ["--rm", "--network", f"container:{NAME}", "--cap-drop", "ALL", "--cap-add", "NET_ADMIN"]
    restricts = [commands.NETWORK_IMAGE, "sh", "-c", cut_script(), "cut", "", "40000"]
    assert read_command(["run", *LABEL, *cut, *restricts]) == commands.CutNetwork(NAME, cut_script(), "40000")
    restricted = ["--cap-drop", "NET_ADMIN", "--cap-drop", "NET_RAW", "--security-opt", "no-new-privileges"]
    started = read_command(["run", *START, *restricted, "--sysctl", "net.ipv6.conf.all.disable_ipv6=1", *END])
    assert started == commands.Start(NAME, IMAGE, restricted=True)
    with pytest.raises(RefusedCommand, match="none of verifiers"):
        read_command(["run", *LABEL, *cut, *restricts[:3], f"{cut_script()}; ip link", *restricts[4:]])
    with pytest.raises(RefusedCommand, match="only the script"):
        read_command(["run", *LABEL, *cut, IMAGE, *restricts[1:]])
    with pytest.raises(RefusedCommand, match="'70000' is no port"):
        read_command(["run", *LABEL, *cut, *restricts[:-1], "70000"])


@pytest.mark.parametrize(
    "options",
    [
        ["-v", "/:/host"],
        ["--volume", "/:/host"],
        ["--volume=/:/host"],
        ["--mount", "type=bind,src=/,dst=/host"],
        ["--volumes-from", OTHER],
        ["--tmpfs", "/x"],
        ["--privileged"],
        ["--privileged=true"],
        ["--device", "/dev/kmsg"],
        ["--device", "nvidia.com/gpu=0"],
        ["--gpus", "1"],
        ["--cap-add", "SYS_ADMIN"],
        ["--cap-drop", "ALL"],
        ["--security-opt", "seccomp=unconfined"],
        ["--security-opt", "no-new-privileges"],
        ["--sysctl", "kernel.core_pattern=x"],
        ["--pid", "host"],
        ["--ipc", "host"],
        ["--uts", "host"],
        ["--userns", "host"],
        ["--cgroupns", "host"],
        ["--cgroup-parent", "/"],
        ["--network", "host"],
        ["--publish", "0.0.0.0:80:80"],
        ["--name", OTHER],
        ["--entrypoint", "sh"],
        ["--detach"],
        ["--env-file", "/home/user/.env"],
        ["--env", "PRIME_API_KEY"],
        ["--env", "PRIME*"],
        ["--env-host"],
        ["--label", "verifiers.run=other"],
        ["--label-file", "/etc/passwd"],
        ["--pidfile", "/tmp/x"],
        ["--cidfile", "/tmp/x"],
        ["--log-opt", "path=/tmp/x"],
        ["--init-path", "/tmp/x"],
        ["--hooks-dir", "/tmp/x"],
        ["--secret", "key"],
        ["--pod", "mine"],
        ["--add-host", "internal:10.0.0.1"],
        ["--restart", "always"],
        ["--memory", "0"],
        ["--cpus", "-1"],
        ["--authfile", "/home/user/auth.json"],
        ["--rm"],
        ["--"],
        ["-"],
    ],
    ids=" ".join,
)
def test_a_container_is_started_with_no_other_options(options: list[str]) -> None:
    with pytest.raises(RefusedCommand):
        read_command(["run", *START, *options, *END])


@pytest.mark.parametrize("missing", ["--label", "--detach", "--network", "--publish", "--entrypoint", "--name"])
def test_a_container_is_started_with_all_options_that_keep_it_apart(missing: str) -> None:
    words = [*START, *END]
    at = words.index(missing)
    with pytest.raises(RefusedCommand):
        read_command(["run", *words[:at], *words[at + (1 if missing == "--detach" else 2) :]])


@pytest.mark.parametrize(
    "network", ["host", "none", "mine", "slirp4netns", "ns:/proc/1/ns/net", "container:db", "", "bridge:ip=10.0.0.9"]
)
def test_a_container_is_in_no_other_network(network: str) -> None:
    with pytest.raises(RefusedCommand):
        read_command(["run", *LABEL, "--detach", "--network", network, *NETWORK[2:], "--http-proxy=false", *END])


@pytest.mark.parametrize(
    "image",
    [
        "-v",
        "--privileged",
        "-v/:/host",
        "docker-archive:/etc/shadow",
        "docker-archive:images",
        "oci:layout",
        "oci-archive:/x.tar",
        "dir:/etc",
        "dir:x",
        "containers-storage:x",
        "docker://registry/x",
        "docker-daemon:x:latest",
        "sif:x",
        "http://127.0.0.1/x.tar",
        "/etc",
        "./x",
        "../x",
        "x y",
        "x\ny",
        "",
        "é",
        "X/Y",
    ],
    ids=repr,
)
def test_an_image_is_a_name_and_no_option_file_or_service(image: str) -> None:
    with pytest.raises(RefusedCommand):
        read_command(["run", *START, *END[:-2], image, "infinity"])


@pytest.mark.parametrize(
    "image",
    [
        "python",
        "python:3.11-slim",
        "owner/image:1",
        "localhost/mine:1",
        "registry.example.com:5000/a/b_c:x",
        f"quay.io/a/b@sha256:{'0' * 64}",
        "localhost:5000/dir:latest",
    ],
)
def test_names_of_images_are_read(image: str) -> None:
    assert read_command(["run", *START, *END[:-2], image, "infinity"]) == commands.Start(NAME, image)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["ps"],
        ["ps", "--all"],
        ["version", "--format", "x"],
        ["info"],
        ["cp", f"{NAME}:/etc/passwd", "/tmp/x"],
        ["mount", NAME],
        ["unshare", "id"],
        ["system", "service"],
        ["machine", "ssh"],
        ["--root", "/x", "version"],
        ["--remote", "version"],
        ["--url", "unix:///run/docker.sock", "version"],
        ["volume", "create", "x"],
        ["pull", "x"],
        ["push", "x", "docker://x"],
        ["login", "-u", "x"],
        ["commit", NAME, "x"],
        ["save", "x"],
        ["load", "-i", "/tmp/x"],
        ["import", "/etc/passwd"],
        ["create", "--name", NAME, IMAGE],
        ["run", *START, *END[:-1], "1h"],
        ["kube", "play", "x.yaml"],
        ["image", "inspect", "x"],
        ["image", "inspect", commands.NETWORK_IMAGE, "x"],
        ["build", "--tag", "x", "--file", "-", "/tmp"],
        ["build", "--tag", commands.NETWORK_IMAGE, "--file", "/etc/passwd", "/tmp"],
        ["build", "--tag", commands.NETWORK_IMAGE, "--volume", "/:/x", "--file", "-", "/tmp"],
        ["inspect", NAME],
        ["inspect", "--format", "{{.HostConfig}}", NAME],
        ["inspect", "--format", "{{json .Config}}", "database"],
        ["inspect", "--format", "{{json .Config}}", "--latest"],
        ["port", NAME],
        ["port", "--all"],
        ["port", NAME, "22/tcp"],
        ["rm", "--force", "database"],
        ["rm", "--force", "--all"],
        ["rm", "--force", NAME, OTHER],
        ["rm", "--all", NAME],
        ["exec", NAME],
        ["exec", "database", "id"],
        ["exec", NAME[:-1], "id"],
        ["exec", f"{NAME} ", "id"],
        ["exec", "--latest", "id"],
        ["exec", "--privileged", NAME, "id"],
        ["exec", "--preserve-fds", "3", NAME, "id"],
        ["exec", "--env-file", "/etc/passwd", NAME, "id"],
        ["exec", "--env", "HOME", NAME, "id"],
        ["exec", "--env=A=b", NAME, "id"],
        ["exec", "-it", NAME, "sh"],
        ["exec", "-i", "-i", NAME, "sh"],
        ["exec", "--user", "-x", NAME, "id"],
        ["exec", "--user", "0", "--user", "1", NAME, "id"],
        ["exec", "--workdir", "app", NAME, "id"],
        ["exec", "--workdir"],
        ["exec", NAME, "a\0b"],
        ["prime-lab-listen", NAME, "0"],
        ["prime-lab-listen", NAME, "-1"],
        ["prime-lab-listen", NAME, "65536"],
        ["prime-lab-listen", "database", "40000"],
        ["prime-lab-listen", NAME, "40000", "10.0.0.1"],
    ],
    ids=lambda argv: " ".join(argv).replace("\0", "NUL") or "nothing",
)
def test_no_other_command_is_run(argv: list[str]) -> None:
    with pytest.raises(RefusedCommand):
        read_command(argv)


def test_a_helper_of_verifiers_that_mounts_a_folder_is_refused() -> None:
    with pytest.raises(RefusedCommand, match="--volume"):
        read_command(
            ["run", *LABEL, "--rm", "--network", f"container:{NAME}", "--volume", "/tmp/vf-proxy-x:/run/vf:Z", IMAGE]
        )


def test_what_runs_has_limits_and_the_label_and_ends_by_itself() -> None:
    start = commands.Start(NAME, "python:3.11-slim", ("A=b",), memory="2.0g")
    written = commands.start_arguments(start, "eval-1", IMAGE, 600, 40123)
    for option in ("--label=prime-lab.containers=eval-1", "--timeout=600", "--memory=2.0g", "--pids-limit=1024"):
        assert option in written
    assert "--pull=never" in written
    assert written[-3:] == ["--", IMAGE, "infinity"]
    assert "--memory=8g" in commands.start_arguments(commands.Start(NAME, IMAGE), "eval-1", IMAGE, 600, 40123)


def test_helpers_in_the_network_of_a_container_have_its_label_and_end_by_themselves() -> None:
    cut = commands.cut_arguments(commands.CutNetwork(NAME, "script", "40000"), "eval-1")
    listen = commands.listen_arguments(commands.Listen(NAME, 40000), "eval-1", IMAGE, "/run/x/control")
    for written in (cut, listen):
        options = written[: written.index("--")]
        for option in (f"--network=container:{NAME}", "--label=prime-lab.containers=eval-1", "--timeout=60"):
            assert option in options
        assert "--cap-drop=ALL" in options
        assert written[-1] == "40000"
    assert cut[cut.index("--") + 1 :] == [commands.NETWORK_IMAGE, "sh", "-c", "script", "cut", "", "40000"]
    assert [option for option in listen if "volume" in option] == ["--volume=/run/x/control:/run/listener.sock:ro,Z"]


def test_a_value_that_looks_like_an_option_stays_a_value() -> None:
    ran = read_command(["exec", "--env", "A=--privileged", "--workdir", "/--privileged", NAME, "--privileged"])
    assert isinstance(ran, commands.Execute)
    assert commands.execute_arguments(ran) == [
        "exec",
        "--env=A=--privileged",
        "--workdir=/--privileged",
        "--",
        NAME,
        "--privileged",
    ]


def test_a_name_without_a_registry_stands_for_docker_hub() -> None:
    assert commands.qualified("python:3.11-slim") == "docker.io/library/python:3.11-slim"
    assert commands.qualified("owner/image") == "docker.io/owner/image"
    assert commands.qualified("localhost/mine:1") == "localhost/mine:1"
    assert commands.qualified("quay.io/a/b") == "quay.io/a/b"
