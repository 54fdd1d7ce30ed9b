"""Local evaluations: what is asked for, the detached job that runs `vf-eval`, its results, and what they prove."""
