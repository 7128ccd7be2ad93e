"""RationRun: an Airflow task that comes back when the quota does.

It is a sensor that runs `ration run --json`. If a budget or a cooldown stops the run
(exit 75), the sensor runs it again at the time of ration's answer, and does not
occupy a worker meanwhile; `timeout` limits how long. Any other code fails the task.
"""

import json
import subprocess
from datetime import datetime, timedelta, timezone

STOPPED = 75

try:
    from airflow.exceptions import AirflowException
    from airflow.sensors.base import BaseSensorOperator, PokeReturnValue
except ImportError:  # the tests have no Airflow
    AirflowException, BaseSensorOperator, PokeReturnValue = RuntimeError, object, dict


def retry_at(output, now=None):
    """Return the time in the JSON that `ration run --json` printed on stdout.

    It is at least a minute away, and half an hour where ration names none, as
    for a ledger that is busy.
    """
    now = now or datetime.now(timezone.utc)
    named = None
    lines = output.strip().splitlines()
    if lines:
        named = json.loads(lines[-1]).get("retry_at")
    if not named:
        return now + timedelta(minutes=30)
    # Python before 3.11 reads neither Z nor a fraction of any length.
    whole = named.rstrip("Z").partition(".")[0]
    at = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return max(at + timedelta(seconds=1), now + timedelta(minutes=1))


def run(command):
    """Run a command; return its exit code and what it printed on stdout."""
    done = subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True, check=False)
    return done.returncode, done.stdout


class RationRun(BaseSensorOperator):
    """Fetch regions; all of regions.yaml if none is named."""

    def __init__(self, regions=(), flags=(), **kwargs):
        kwargs.setdefault("mode", "reschedule")
        super().__init__(**kwargs)
        self.command = ["ration", "run", "--json", *flags, *regions]

    def poke(self, context):
        code, output = run(self.command)
        if code == STOPPED:
            self.poke_interval = (retry_at(output) - datetime.now(timezone.utc)).total_seconds()
            return False
        if code != 0:
            raise AirflowException("ration run ended with %d; its message is in the log" % code)
        return PokeReturnValue(is_done=True, xcom_value=json.loads(output))
