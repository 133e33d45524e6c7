"""The planted recording fault: trajectories whose pictures stand one step off, which the alignment check must find.

They lie in a folder of their own beside the native formats and belong to no source whose numbers count.
"""

from collections.abc import Sequence

from evoaudit.simulate.deal import APPS, FAULTS_FROM, SHOWN, Deal

#: Folder of the control in a corpus, and the kind it is read as.
FOLDER, KIND = "shifted", "plain"
#: Four times the least that the check needs: not every trajectory tells, and it is to be found whatever the seed.
TRAJECTORIES = 40


def planted(trajectories: int, formats: Sequence[str]) -> bool:
    """Return whether a corpus of this size and these formats holds the control."""
    return trajectories >= FAULTS_FROM and KIND in formats


def deal(number: int) -> Deal:
    """Return what trajectory ``number`` of the control is to be: a person's demonstration."""
    apps = APPS[KIND]
    return Deal(number, FOLDER, number, number, 0, apps[number % len(apps)], SHOWN[(number + number // 6) % 4], "demonstration")
