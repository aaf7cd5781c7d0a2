//! Quantities as a person writes them: `"250us"`, `"200/s"`, `{ min = "1us", max = "20us" }`.

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use weft_verbs::Nanos;

/// The units of time, largest first, with their length in nanoseconds.
const UNITS: [(&str, u64); 5] =
    [("min", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// A span of virtual time, written as a number and a unit: `"250us"`, `"1.5ms"`, `"2s"`.
///
/// Kept in nanoseconds; it is written back in the largest unit that expresses it as a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span(pub Nanos);

impl Span {
    /// The span in nanoseconds of virtual time.
    pub fn nanos(self) -> Nanos {
        self.0
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let wrong = || format!("a time is a number and one of {}, for example \"250us\"", unit_names());
        let (number, unit) = split_number(text).ok_or_else(wrong)?;
        let unit = if unit == "µs" { "us" } else { unit };
        let (_, scale) = UNITS.into_iter().find(|&(name, _)| name == unit).ok_or_else(wrong)?;
        scaled(number, scale).map(|n| Span(Nanos(n))).ok_or_else(|| {
            "a time has at most nanosecond precision and is shorter than five hundred years".to_string()
        })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0.0;
        let (unit, scale) =
            UNITS.into_iter().find(|&(_, scale)| n.is_multiple_of(scale) && n != 0).unwrap_or(("ns", 1));
        write!(f, "{}{unit}", n / scale)
    }
}

/// How often something happens in virtual time, written as a number per unit of time: `"200/s"`, `"3/ms"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many events happen in one `per`, on average.
    pub count: u64,
    /// The unit of time that `count` refers to.
    pub per: Span,
}

impl Rate {
    /// The mean time between two events.
    pub fn mean_interval(self) -> Nanos {
        self.per.0 / self.count.max(1)
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let wrong = || format!("a rate is a whole number per {}, for example \"200/s\"", unit_names());
        let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
        let count: u64 = count.trim().parse().map_err(|_| wrong())?;
        let (_, scale) = UNITS.into_iter().find(|&(name, _)| name == unit.trim()).ok_or_else(wrong)?;
        let rate = Rate { count, per: Span(Nanos(scale)) };
        if count == 0 {
            return Err("a rate is at least 1; leave the fault out if it is never to happen".into());
        }
        if rate.mean_interval() == Nanos::ZERO {
            return Err("a rate is at most one event a nanosecond".into());
        }
        Ok(rate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, _) = UNITS.into_iter().find(|&(_, scale)| scale == self.per.0.0).unwrap_or(UNITS[1]);
        write!(f, "{}/{unit}", self.count)
    }
}

/// A time that is fixed (`"5us"`) or drawn evenly from a range (`{ min = "1us", max = "20us" }`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The shortest time that is drawn.
    pub min: Span,
    /// The longest time that is drawn; equal to `min` when the time is fixed.
    pub max: Span,
}

impl Spread {
    /// Always the same time.
    pub const fn fixed(time: Nanos) -> Spread {
        Spread { min: Span(time), max: Span(time) }
    }
}

/// A share of a whole, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
pub struct Share(f64);

impl Share {
    /// Nothing of it.
    pub const NONE: Share = Share(0.0);
    /// All of it.
    pub const ALL: Share = Share(1.0);

    /// A share, or `None` if it is not from 0 to 1.
    pub fn new(share: f64) -> Option<Share> {
        (0.0..=1.0).contains(&share).then_some(Share(share))
    }

    /// The share as a number from 0 to 1.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The share in parts per million, rounded to the nearest.
    pub fn ppm(self) -> u32 {
        (self.0 * 1e6).round() as u32
    }
}

fn unit_names() -> String {
    let names: Vec<&str> = UNITS.iter().rev().map(|&(name, _)| name).collect();
    names.join(", ")
}

/// Splits `"1.5ms"` into `"1.5"` and `"ms"`.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')?;
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = whole.contains(|c: char| c.is_ascii_digit()) && !fraction.contains('.');
    is_number.then_some((number, unit.trim()))
}

/// `number * scale` in exact decimal arithmetic, if it is a whole number that fits.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut total = whole.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.bytes() {
        let digit = u64::from(digit.checked_sub(b'0').filter(|d| *d < 10)?);
        if digit != 0 && !place.is_multiple_of(10) {
            return None;
        }
        place /= 10;
        total = total.checked_add(digit.checked_mul(place)?)?;
    }
    Some(total)
}

/// Serde through `FromStr` and `Display`, for quantities that are written as one string.
macro_rules! as_text {
    ($type:ty, $expecting:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                from.deserialize_str(Text)
            }
        }
    };
}

as_text!(Span, "a time in quotes with its unit, for example \"250us\"");
as_text!(Rate, "a rate in quotes, for example \"200/s\"");

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Share, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Share;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a share from 0 to 1, for example 0.25 for a quarter")
            }
            fn visit_f64<E: de::Error>(self, share: f64) -> Result<Share, E> {
                let problem = "a share is from 0 to 1, for example 0.25 for a quarter";
                Share::new(share).ok_or_else(|| E::custom(problem))
            }
            fn visit_i64<E: de::Error>(self, share: i64) -> Result<Share, E> {
                self.visit_f64(share as f64)
            }
        }
        from.deserialize_any(Number)
    }
}

impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.min == self.max {
            return self.min.serialize(to);
        }
        use serde::ser::SerializeStruct;
        let mut table = to.serialize_struct("Spread", 2)?;
        table.serialize_field("min", &self.min)?;
        table.serialize_field("max", &self.max)?;
        table.end()
    }
}

impl<'de> Deserialize<'de> for Spread {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Spread, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Range {
            min: Span,
            max: Span,
        }
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Spread;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time (\"5us\") or a range ({ min = \"1us\", max = \"20us\" })")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Spread, E> {
                let time: Span = text.parse().map_err(E::custom)?;
                Ok(Spread::fixed(time.0))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Spread, A::Error> {
                let Range { min, max } = Range::deserialize(de::value::MapAccessDeserializer::new(map))?;
                if min > max {
                    return Err(de::Error::custom(format!("min ({min}) is above max ({max}); swap them")));
                }
                Ok(Spread { min, max })
            }
        }
        from.deserialize_any(Either)
    }
}
