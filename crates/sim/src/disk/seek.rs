//! Seek time by distance.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parameters::MAX_TIME_NS;
use crate::bounds::InvalidParameter;
use crate::device::Nanos;

/// Largest relative gap between the two parts of a curve where they meet.
const MAX_GAP: f64 = 0.01;

/// Time to move the heads by a distance, which is a fraction of all cylinders. No distance takes no time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Seek {
    /// Two parts: acceleration, then travel at the highest speed.
    Curve(SeekCurve),
    /// Measured times, interpolated linearly; constant before the first point and after the last.
    Table(#[schemars(length(min = 1))] Vec<SeekPoint>),
}

/// Seek time as in equation 14 of Shen, Zhong and Li, "I/O system performance debugging using model-driven anomaly
/// characterization" (FAST 2005): a + b·√d up to a distance d of e, c + d·d beyond.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeekCurve {
    /// a, in ns: the shortest seek.
    pub a_ns: f64,
    /// b, in ns: slope over the root of the distance.
    pub b_ns: f64,
    /// c, in ns: intercept of long seeks.
    pub c_ns: f64,
    /// d, in ns: slope of long seeks over the distance.
    pub d_ns: f64,
    /// e, from 0 to 1: the distance at which long seeks begin.
    #[schemars(range(min = 0, max = 1))]
    pub e: f64,
    /// Permits the two parts to differ by more than 1 % at `e`.
    #[serde(default)]
    pub allow_gap: bool,
}

/// A measured seek.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeekPoint {
    /// Cylinders passed, as a fraction of all; increasing from point to point.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub distance: f64,
    /// Its time.
    #[schemars(range(max = MAX_TIME_NS))]
    pub time_ns: Nanos,
}

impl SeekCurve {
    fn short(&self, distance: f64) -> f64 {
        self.a_ns + self.b_ns * distance.sqrt()
    }

    fn long(&self, distance: f64) -> f64 {
        self.c_ns + self.d_ns * distance
    }

    /// Time for a distance above 0, in ns.
    pub(crate) fn time_ns(&self, distance: f64) -> f64 {
        if distance <= self.e { self.short(distance) } else { self.long(distance) }
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidParameter> {
        // Each part is monotone, so that its ends bound it.
        for (part, time) in [
            ("a_ns", self.a_ns),
            ("a_ns + b_ns·√e", self.short(self.e)),
            ("c_ns + d_ns·e", self.long(self.e)),
            ("c_ns + d_ns", self.long(1.0)),
        ] {
            if !(0.0..=1e9).contains(&time) {
                return Err(InvalidParameter::new(format!("seek.curve: {part}"), "0 to 1 s, in ns", time));
            }
        }
        let (short, long) = (self.short(self.e), self.long(self.e));
        let gap = (short - long).abs() / short.max(long).max(1.0);
        if gap > MAX_GAP && !self.allow_gap && self.e > 0.0 && self.e < 1.0 {
            return Err(InvalidParameter::new(
                "seek.curve.e",
                "a distance where both parts agree within 1 %, or allow_gap",
                format!("{short:.0} ns before and {long:.0} ns after {} ({:.1} %)", self.e, gap * 100.0),
            ));
        }
        Ok(())
    }
}

impl Seek {
    /// Time for a distance from 0 to 1, in ns.
    #[must_use]
    pub fn time(&self, distance: f64) -> Nanos {
        if distance <= 0.0 {
            return 0;
        }
        match self {
            // Rounded to the nearest; the bounds are checked by `validate`.
            Self::Curve(curve) => curve.time_ns(distance).round() as Nanos,
            Self::Table(points) => interpolate(points, distance),
        }
    }

    /// Whether the parts of a curve meet, or the points of a table are in order; bounds of single numbers are checked before.
    pub(super) fn validate(&self) -> Result<(), InvalidParameter> {
        let points = match self {
            Self::Curve(curve) => return curve.validate(),
            Self::Table(points) => points,
        };
        let mut last = 0.0;
        for (at, point) in points.iter().enumerate() {
            if point.distance <= last {
                let expected = format!("more than {last}");
                return Err(InvalidParameter::new(
                    format!("seek.table[{at}].distance"),
                    expected,
                    point.distance,
                ));
            }
            last = point.distance;
        }
        Ok(())
    }
}

fn interpolate(points: &[SeekPoint], distance: f64) -> Nanos {
    let after = points.partition_point(|point| point.distance < distance);
    match (after.checked_sub(1).and_then(|before| points.get(before)), points.get(after)) {
        (Some(low), Some(high)) => {
            let share = (distance - low.distance) / (high.distance - low.distance);
            let (from, to) = (low.time_ns as f64, high.time_ns as f64);
            (from + share * (to - from)).round() as Nanos
        }
        (Some(only), None) | (None, Some(only)) => only.time_ns,
        (None, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds;

    const CURVE: SeekCurve =
        SeekCurve { a_ns: 1e6, b_ns: 8e6, c_ns: 3e6, d_ns: 8e6, e: 0.25, allow_gap: false };

    #[test]
    fn a_curve_is_equation_14() {
        let seek = Seek::Curve(CURVE);
        assert_eq!(seek.validate(), Ok(()));
        for (distance, expected) in [
            (0.0, 0),
            (0.0001, 1_080_000),
            (0.01, 1_800_000),
            (0.25, 5_000_000), // the root's part, included
            (0.5, 7_000_000),
            (1.0, 11_000_000),
        ] {
            assert_eq!(seek.time(distance), expected, "at {distance}");
        }
    }

    #[test]
    fn a_gap_between_the_parts_is_refused_unless_allowed() {
        let apart = |c_ns, allow_gap| Seek::Curve(SeekCurve { c_ns, allow_gap, ..CURVE }).validate();
        assert_eq!(apart(3.05e6, false), Ok(()));
        let message = apart(3.06e6, false).map_err(|error| error.to_string());
        assert_eq!(
            message,
            Err("seek.curve.e: expected a distance where both parts agree within 1 %, or allow_gap, \
                 found 5000000 ns before and 5060000 ns after 0.25 (1.2 %)"
                .into())
        );
        assert_eq!(apart(3.06e6, true), Ok(()));
        assert!(apart(f64::NAN, true).is_err());
        assert!(apart(-9e6, true).is_err());
    }

    #[test]
    fn a_table_is_interpolated() {
        let point = |distance, time_ns| SeekPoint { distance, time_ns };
        let seek = Seek::Table(vec![point(0.1, 1000), point(0.2, 2000), point(0.6, 4000)]);
        assert_eq!(seek.validate(), Ok(()));
        for (distance, expected) in [
            (0.0, 0),
            (0.01, 1000),
            (0.1, 1000),
            (0.15, 1500),
            (0.2, 2000),
            (0.3, 2500),
            (0.6, 4000),
            (1.0, 4000),
        ] {
            assert_eq!(seek.time(distance), expected, "at {distance}");
        }
        assert!(bounds::check(&Seek::Table(vec![])).is_err());
        assert!(Seek::Table(vec![point(0.2, 1), point(0.2, 1)]).validate().is_err());
        assert!(bounds::check(&Seek::Table(vec![point(f64::NAN, 1)])).is_err());
        assert!(bounds::check(&Seek::Table(vec![point(0.0, 1)])).is_err());
        assert!(bounds::check(&Seek::Table(vec![point(0.1, MAX_TIME_NS + 1)])).is_err());
    }
}
