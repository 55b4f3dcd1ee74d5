"""Finds the running applications that a command names. Only applications of the same user on this machine can be found."""

from pathlib import Path

from mqflow.app.errors import ConfigurationError
from mqflow.cli.text.terminal import safe
from mqflow.cli.watching.sockets import Answer, applications, control_folder
from mqflow.cli.watching.status_report import StatusReport, report
from mqflow.policy.health.records import ApplicationStatus, SilentProcess

__all__ = ("every_report", "one", "reports")


def reports(name: str | None) -> list[tuple[Path, StatusReport | str]]:
    """Return the reports of all applications, or of those with this name or process.

    For an application without a report, return the reason; the reason is empty if the application does not answer. Raises
    `ConfigurationError` if no application has this name.
    """
    answers = _chosen(name, wants_queues=True)
    return [
        (path, report(answer.status, answer.queues) if answer and answer.status else answer.refused if answer else "")
        for path, answer in answers
    ]


def every_report(name: str | None) -> list[StatusReport]:
    """Return the reports as `reports` does; for an application that does not answer, a report that says so."""
    return [_silent(path) if isinstance(found, str) else found for path, found in reports(name)]


def _silent(path: Path) -> StatusReport:
    name, _, process = path.stem.rpartition(".")
    number = int(process) if process.isdecimal() else 0
    silent = SilentProcess(process=number, number=0, for_s=0.0)
    return report(ApplicationStatus(application=name or path.stem, process=number, silent=(silent,)), ())


def one(name: str) -> tuple[Path, ApplicationStatus]:
    """Return the only application with this name or process.

    Raises `ConfigurationError` if no application, or more than one, has this name, or if the application does not answer.
    """
    found = _chosen(name)
    if len(found) > 1:
        processes = " or ".join(path.stem.rpartition(".")[2] for path, _ in found)
        raise ConfigurationError(f"{name} runs {len(found)} times. Name the process instead: {processes}.")
    [(path, answer)] = found
    if answer is None or answer.status is None:
        why = "" if answer is None else f" {answer.refused}"
        raise ConfigurationError(f"{path.stem} does not answer on {path}.{why} A process that is stopped (SIGSTOP) does not.")
    return path, answer.status


def _chosen(name: str | None, *, wants_queues: bool = False) -> list[tuple[Path, Answer | None]]:
    try:
        found = applications(wants_queues=wants_queues)
        folder = control_folder()
    except OSError as error:
        remedy = "MQFLOW_CONTROL_FOLDER names another folder, for the application and for this command."
        raise ConfigurationError(f"The control sockets cannot be read: {error}. {remedy}") from error
    if name is None:
        return found
    matching = [(path, answer) for path, answer in found if name in _names(path, answer)]
    if not matching:
        known = ", ".join(" or ".join(sorted(map(safe, _names(path, answer)))) for path, answer in found)
        raise ConfigurationError(
            f"No application {name!r} of this user runs on this machine. Running: {known or 'none'}. "
            f"`mqflow run` has its control socket in {folder}; MQFLOW_CONTROL_FOLDER names another folder for both commands."
        )
    return matching


def _names(path: Path, answer: Answer | None) -> set[str]:
    """Return the name of the application and the number of its process."""
    status = None if answer is None else answer.status
    return {*path.stem.rsplit(".", 1)} if status is None else {status.application, str(status.process)}
