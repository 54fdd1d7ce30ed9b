"""The sets of populations that `benchmarks.statistics` judges.

`TUNED` was looked at while the estimates were made; its second half was held out once, until its results changed them.
`HELD_OUT` was written after the last change of the estimates and before any of its results were seen. Whoever changes
the estimates because of it moves it to `TUNED` and writes another.
"""

from __future__ import annotations

from benchmarks.statistics_populations import Clipped, Continuous, LogitNormal, Part, Population, Thirds

_TOPICS = (Part(0.25, 2, 38), Part(0.25, 20, 20), Part(0.25, 38, 2), Part(0.25, 10, 30))
TUNED: tuple[Population, ...] = (
    Population("Beta(.5, .5)", (Part(1, 0.5, 0.5),)),
    Population("Beta(.3, .6)", (Part(1, 0.3, 0.6),)),
    Population("Beta(4, 4)", (Part(1, 4, 4),)),
    Population("Beta(.2, 4): 5 % solved", (Part(1, 0.2, 4),)),
    Population("Beta(.02, .02): nearly divided", (Part(1, 0.02, 0.02),)),
    Population("Beta(.05, .5): hard", (Part(1, 0.05, 0.5),)),
    Population("all tasks .01", (Part(1, 0.01),)),
    Population("all tasks .05", (Part(1, 0.05),)),
    Population("all tasks .5", (Part(1, 0.5),)),
    Population("half always, half never", (Part(0.5, 0.0), Part(0.5, 1.0))),
    Population("never 45 %, always 45 %, .5", (Part(0.45, 0), Part(0.45, 1), Part(0.1, 0.5)), inside=False),
    Population("never 70 %, else Beta(2, 2)", (Part(0.7, 0.0), Part(0.3, 2, 2)), inside=False),
    Population("half .02, half .98", (Part(0.5, 0.02), Part(0.5, 0.98)), inside=False),
    Population("Beta(.5, .5), form always", (Part(1, 0.5, 0.5),), form=1.0),
    Population("Beta(.5, .5), form .95", (Part(1, 0.5, 0.5),), form=0.95, inside=False),
    Continuous("continuous", ()),
    Population("Beta(.3, .3)", (Part(1, 0.3, 0.3),)),
    Population("Beta(.2, 2)", (Part(1, 0.2, 2),)),
    Population("Beta(5, 1)", (Part(1, 5, 1),)),
    Population("Beta(.1, 1)", (Part(1, 0.1, 1),)),
    Population("Beta(1, .1)", (Part(1, 1, 0.1),)),
    Population("logit-normal(0, .5)", (LogitNormal(1, 0, 0.5),), inside=False),
    Population("logit-normal(0, 2)", (LogitNormal(1, 0, 2),), inside=False),
    Population("logit-normal(-2, 1)", (LogitNormal(1, -2, 1),), inside=False),
    Population("logit-normal(-5, 2)", (LogitNormal(1, -5, 2),), inside=False),
    Population("logit-normal(0, 6)", (LogitNormal(1, 0, 6),), inside=False),
    Population("thirds of .05, .5, .95", (Part(1 / 3, 0.05), Part(1 / 3, 0.5), Part(1 / 3, 0.95)), inside=False),
    Population("60 % never, 30 % .2, always", (Part(0.6, 0), Part(0.3, 0.2), Part(0.1, 1)), inside=False),
    Population("50 % never, 44 % always, .3", (Part(0.5, 0), Part(0.44, 1), Part(0.06, 0.3)), inside=False),
    Population("85 % never, else Beta(2, 3)", (Part(0.85, 0.0), Part(0.15, 2, 3)), inside=False),
    Population("30 % .01, 70 % .97", (Part(0.3, 0.01), Part(0.7, 0.97)), inside=False),
    Population("four topics", _TOPICS, inside=False),
    Thirds("credit in thirds, Beta(1, 1)", (Part(1, 1, 1),), inside=False),
    Thirds("credit in thirds, Beta(.3, 1)", (Part(1, 0.3, 1),), inside=False),
    Thirds("credit in thirds, 80 % never", (Part(0.8, 0.0), Part(0.2, 1, 1)), inside=False),
    Clipped("continuous, noise .1", (), inside=False, low=0.0, high=1.0, noise=0.1),
    Clipped("continuous, half at zero", (), inside=False, low=-1.0, high=1.0, noise=0.15),
    Population("Beta(.3, 2), form .9 for .2", (Part(1, 0.3, 2),), form=0.9, form_weight=0.2, inside=False),
    Population("Beta(.1, 2), form .7 for .3", (Part(1, 0.1, 2),), form=0.7, form_weight=0.3, inside=False),
    Population("Beta(.1, .3), form .99 for .1", (Part(1, 0.1, 0.3),), form=0.99, inside=False),
    Population("Beta(.5, 1), 20 % failed", (Part(1, 0.5, 1),), lost=0.2),
    Population("60 % never, uneven", (Part(0.6, 0.0), Part(0.4, 1, 2)), uneven=True, inside=False),
    Population("Beta(.5, .5), ten share one", (Part(1, 0.5, 0.5),), alike=10, inside=False),
)
HELD_OUT: tuple[Population, ...] = (
    Population("Beta(.15, .25)", (Part(1, 0.15, 0.25),)),
    Population("Beta(3, .5)", (Part(1, 3, 0.5),)),
    Population("Beta(.4, 5)", (Part(1, 0.4, 5),)),
    Population("Beta(.08, .08)", (Part(1, 0.08, 0.08),)),
    Population("logit-normal(1, 1.5)", (LogitNormal(1, 1, 1.5),), inside=False),
    Population("logit-normal(-3, 3)", (LogitNormal(1, -3, 3),), inside=False),
    Population("logit-normal(2, .7)", (LogitNormal(1, 2, 0.7),), inside=False),
    Population("thirds of .1, .6, .99", (Part(1 / 3, 0.1), Part(1 / 3, 0.6), Part(1 / 3, 0.99)), inside=False),
    Population("40 % never, 40 % .08, .9", (Part(0.4, 0), Part(0.4, 0.08), Part(0.2, 0.9)), inside=False),
    Population("93 % never, else Beta(1, 1)", (Part(0.93, 0.0), Part(0.07, 1, 1)), inside=False),
    Population("48 % never, 45 % always, .4", (Part(0.48, 0), Part(0.45, 1), Part(0.07, 0.4)), inside=False),
    Population("20 % .03, 80 % .995", (Part(0.2, 0.03), Part(0.8, 0.995)), inside=False),
    Thirds("credit in thirds, Beta(.1, .8)", (Part(1, 0.1, 0.8),), inside=False),
    Thirds("credit in thirds, 92 % never", (Part(0.92, 0.0), Part(0.08, 2, 2)), inside=False),
    Clipped("continuous, noise .05", (), inside=False, low=-0.6, high=0.6, noise=0.05),
    Clipped("continuous, half at one", (), inside=False, low=0.5, high=1.5, noise=0.1),
    Clipped("continuous, most at zero", (), inside=False, low=-4.0, high=0.2, noise=0.05),
    Population("Beta(.2, .8), form .8 for .15", (Part(1, 0.2, 0.8),), form=0.8, form_weight=0.15, inside=False),
    Population("Beta(.05, 1), form .995 for .25", (Part(1, 0.05, 1),), form=0.995, form_weight=0.25, inside=False),
    Population("Beta(.3, 1.5), 10 % failed", (Part(1, 0.3, 1.5),), lost=0.1),
    Population("Beta(.4, .4), uneven", (Part(1, 0.4, 0.4),), uneven=True),
    Population("Beta(.4, 1), five share one", (Part(1, 0.4, 1),), alike=5, inside=False),
)
