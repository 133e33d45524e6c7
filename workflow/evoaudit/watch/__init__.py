"""How far a run is: computed from its plan, its results and the files its jobs leave beside their logs; nothing here is data."""
