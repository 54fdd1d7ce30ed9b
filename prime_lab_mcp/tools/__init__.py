"""The tools of the workflow, one module each; `registry` lists them in the order of the workflow.

`tool` defines what a tool is. `argument_types`, `rescoring`, `reward_judge`, `submission_question` and
`training_report` are parts of tools.
"""
