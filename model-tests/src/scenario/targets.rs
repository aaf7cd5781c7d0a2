//! How a fault names the machines that it strikes: a number, a pair, or `"random"`.

use super::schema::{Pair, Pick};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;

const RANDOM: &str = "random";

impl Serialize for Pick {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Pick::Node(node) => to.serialize_u32(*node),
            Pick::Random => to.serialize_str(RANDOM),
        }
    }
}

impl<'de> Deserialize<'de> for Pick {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Pick, D::Error> {
        struct Target;
        impl Visitor<'_> for Target {
            type Value = Pick;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a machine's number or \"random\"")
            }
            fn visit_i64<E: de::Error>(self, node: i64) -> Result<Pick, E> {
                u32::try_from(node).map(Pick::Node).map_err(|_| E::custom("machines are numbered from 0"))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Pick, E> {
                if text == RANDOM { Ok(Pick::Random) } else { Err(unknown(&self)) }
            }
        }
        from.deserialize_any(Target)
    }
}

impl Serialize for Pair {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Pair::Nodes(pair) => pair.serialize(to),
            Pair::Random => to.serialize_str(RANDOM),
        }
    }
}

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Pair, D::Error> {
        struct Target;
        impl<'de> Visitor<'de> for Target {
            type Value = Pair;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("two machines' numbers ([0, 3]) or \"random\"")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Pair, A::Error> {
                let (first, second) = (seq.next_element()?, seq.next_element()?);
                let rest: Option<u32> = seq.next_element()?;
                match (first, second, rest) {
                    (Some(first), Some(second), None) => Ok(Pair::Nodes([first, second])),
                    _ => Err(unknown(&self)),
                }
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Pair, E> {
                if text == RANDOM { Ok(Pair::Random) } else { Err(unknown(&self)) }
            }
        }
        from.deserialize_any(Target)
    }
}

fn unknown<'de, V: Visitor<'de>, E: de::Error>(visitor: &V) -> E {
    struct Expecting<'a, V>(&'a V);
    impl<'de, V: Visitor<'de>> fmt::Display for Expecting<'_, V> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("expected ")?;
            self.0.expecting(f)
        }
    }
    E::custom(Expecting(visitor))
}
