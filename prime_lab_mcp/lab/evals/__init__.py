"""Evaluations: their specification, the detached job that runs `vf-eval`, the verdict, and views of the results."""

ENTRY = (
    "hosted.calls",
    "hosted.plan",
    "pages.illustrate",
    "pages.rendering",
    "plan",
    "provenance",
    "rehearsal_answers",
    "rescore.checks",
    "rescore.scoring",
    "rescore.stored",
    "runner.endings",
    "runner.jobs",
    "spec",
    "upload",
    "verdict",
    "views.columns",
    "views.compare",
    "views.difficulty",
    "views.groups",
    "views.rollouts",
    "views.summary",
    "views.zeros",
)
"""Modules that other packages may import."""
