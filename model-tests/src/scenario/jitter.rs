//! `jitter` in `[cluster]`: by how much latencies vary.

use crate::fields::{Rule, Share, Span, broken, in_section};
use serde::de::{self, Deserializer, MapAccess};
use serde::{Deserialize, Serialize, Serializer};
use weft_sim::Jitter as OfFabric;
use weft_verbs::Nanos;

/// By how much latencies vary about those of the profile, drawn by the seed for every packet, wake-up and step of a
/// processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// By which share of itself a latency is shorter or longer at most, each variation as likely; 0 to 0.5. Default: 0.1.
    pub share: Share,
    /// The share of latencies that have a spike instead; 0 to 0.5. Default: 0.002.
    pub spikes: Share,
    /// By how much a spike makes a latency longer at most, each length as likely; up to 1 ms. Default: `"5us"`.
    pub spike: Span,
}

/// The longest spike: what is longer is a fault of kind `delay` or `slow-node`.
const LONGEST_SPIKE: Nanos = Nanos::from_millis(1);

impl Jitter {
    /// Every latency is that of the profile: for measurements, and where time is what is tested. Written `"none"`.
    pub const NONE: Jitter = Jitter { share: Share::NONE, spikes: Share::NONE, spike: Span(Nanos::ZERO) };

    /// What the fabric makes of it.
    pub(crate) fn of_fabric(&self) -> OfFabric {
        OfFabric { share_ppm: self.share.ppm(), spikes_ppm: self.spikes.ppm(), spike: self.spike.nanos() }
    }

    pub(super) fn is_usual(&self) -> bool {
        *self == Jitter::default()
    }

    pub(super) fn check(&self) -> Rule {
        let at = || in_section("cluster", "jitter");
        if [self.share, self.spikes].iter().any(|share| share.get() > 0.5) {
            return broken(
                at(),
                "share and spikes are from 0 to 0.5, or no latency would be the profile's".into(),
            );
        }
        if self.spike.nanos() > LONGEST_SPIKE {
            return broken(
                at(),
                "spike is at most 1ms; what takes longer is a fault: delay or slow-node".into(),
            );
        }
        Ok(())
    }
}

impl Default for Jitter {
    /// The fabric's: [`Jitter::USUAL`](weft_sim::Jitter::USUAL) says where the figures come from.
    fn default() -> Jitter {
        let share = |ppm: u32| Share::new(f64::from(ppm) / 1e6).unwrap_or_default();
        let OfFabric { share_ppm, spikes_ppm, spike } = OfFabric::USUAL;
        Jitter { share: share(share_ppm), spikes: share(spikes_ppm), spike: Span(spike) }
    }
}

/// As a table is written, with the default of what it leaves out.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename = "jitter")]
struct Table {
    share: Share,
    spikes: Share,
    spike: Span,
}

impl Default for Table {
    fn default() -> Table {
        let Jitter { share, spikes, spike } = Jitter::default();
        Table { share, spikes, spike }
    }
}

impl Serialize for Jitter {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Jitter { share, spikes, spike } = *self;
        if *self == Jitter::NONE {
            to.serialize_str("none")
        } else {
            Table { share, spikes, spike }.serialize(to)
        }
    }
}

impl<'de> Deserialize<'de> for Jitter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Jitter, D::Error> {
        struct Written;
        impl<'de> de::Visitor<'de> for Written {
            type Value = Jitter;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("\"none\", or { share = 0.1, spikes = 0.002, spike = \"5us\" } or a part of it")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Jitter, E> {
                match text {
                    "none" => Ok(Jitter::NONE),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Jitter, A::Error> {
                let Table { share, spikes, spike } =
                    Table::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Jitter { share, spikes, spike })
            }
        }
        from.deserialize_any(Written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(jitter: &str) -> Result<Jitter, String> {
        let text = format!(
            "[cluster]\nnodes = 2\njitter = {jitter}\n[workload]\nkind = \"messages\"\nmessages = 1\n"
        );
        crate::parse(&text).map(|scenario| scenario.cluster.jitter).map_err(|error| error.to_string())
    }

    #[test]
    fn what_a_table_leaves_out_is_the_usual() {
        assert_eq!(parsed("\"none\""), Ok(Jitter::NONE));
        assert_eq!(parsed("{}"), Ok(Jitter::default()));
        let spike = Span(Nanos::from_micros(50));
        assert_eq!(parsed("{ spike = \"50us\" }"), Ok(Jitter { spike, ..Jitter::default() }));
    }

    #[test]
    fn what_is_no_jitter_is_refused_with_its_line_and_what_there_is() {
        for (wrong, says) in [
            ("\"much\"", "\"none\", or { share"),
            ("{ share = 0.6 }", "from 0 to 0.5"),
            ("{ spike = \"2ms\" }", "at most 1ms"),
            ("{ shares = 0.1 }", "shares"),
        ] {
            let error = parsed(wrong).expect_err(wrong);
            assert!(error.contains("3:") && error.contains(says), "{wrong}: {error}");
        }
    }
}
