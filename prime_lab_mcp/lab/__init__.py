"""The domain logic, in five floors of packages. A package imports only packages of lower floors.

1. `base`: errors, reports, findings, files, settings, versions, processes.
2. `state`: workspace, snapshots, ledger, gates.
3. Drivers: `prime`, `interpreter`, `distributions`, `toolchain`, `notifier`, `sandbox`, `relay`, `worker`, `loading`,
   `lab`.
4. Analysis: `rollouts`, `distribution`, `datasets`, `environment`, `rewards`.
5. Services: `models`, `authoring`, `hub`, `evals`, `configs`, `training`, `preflight`.
"""
