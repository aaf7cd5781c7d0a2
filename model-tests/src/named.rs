//! Memory by name: what is at an address, and what was done to it, in words.
//!
//! The fabric's log says what was executed on memory by addresses and numbers. A program says what it registers by a label
//! ([`Rt::label`]): `slot 2 of segment 5`. Where a value means something, the system says what it means
//! ([`System::name_of`](crate::system::System::name_of), [`Model::name_of`](crate::harness::Model::name_of)). Together they make a line that a
//! person can read: `swaps lock 3's word: was free, now n1 last`.

use std::fmt;
use weft_protocols::rt::Rt;
use weft_verbs::Verbs;

/// What is at an address.
pub struct Named {
    name: String,
    /// A value there, in words; none if it is no single word.
    value: Option<Box<dyn Fn(u64) -> String>>,
}

impl Named {
    /// A word that is a number, by a name that stands in a sentence: `lock 3's word`.
    pub fn new(name: impl Into<String>) -> Named {
        Named::with(name, number)
    }

    /// A word whose values mean something.
    pub fn with(name: impl Into<String>, value: impl Fn(u64) -> String + 'static) -> Named {
        Named { name: name.into(), value: Some(Box::new(value)) }
    }

    /// Memory of any length, by what it is and where in it.
    pub fn area(name: impl Into<String>) -> Named {
        Named { name: name.into(), value: None }
    }

    /// Memory that a program has [labelled](Rt::label).
    pub fn labelled<V: Verbs>(rt: &Rt<V>, address: u64) -> Option<Named> {
        rt.label_at(address).map(|label| Named::area(label.to_string()))
    }

    fn value(&self, value: u64) -> String {
        self.value.as_ref().map_or_else(|| number(value), |words| words(value))
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Named").field(&self.name).finish()
    }
}

/// Says what is at an address of a node.
pub type Naming<'a> = &'a dyn Fn(u32, u64) -> Option<Named>;

/// What a line of kind `execute` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed<'a> {
    /// The packet's sequence number.
    pub psn: u32,
    /// Where, as the node's own address.
    pub at: u64,
    what: What<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What<'a> {
    Read { again: bool, len: &'a str },
    Write { len: &'a str, value: Option<u64> },
    CompareSwap { compare: u64, swap: u64, found: u64 },
    FetchAdd { add: u64, found: u64 },
}

impl Executed<'_> {
    /// Reads a line's details: `qp3 fetch-add psn=4 at=0x2000 add=0x1 found=0x0`.
    pub fn parse(details: &str) -> Option<Executed<'_>> {
        let mut words = details.split_whitespace();
        let name = words.nth(1)?;
        let field = |name: &str| {
            details.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let number = |name: &str| u64::from_str_radix(field(name)?.strip_prefix("0x")?, 16).ok();
        let what = match name {
            "read" | "read-again" => What::Read { again: name == "read-again", len: field("len")? },
            "write" => What::Write { len: field("len")?, value: number("value") },
            "compare-swap" => What::CompareSwap {
                compare: number("compare")?,
                swap: number("swap")?,
                found: number("found")?,
            },
            "fetch-add" => What::FetchAdd { add: number("add")?, found: number("found")? },
            _ => return None,
        };
        Some(Executed { psn: field("psn")?.parse().ok()?, at: number("at")?, what })
    }

    /// What was done, for people.
    pub fn words(&self, named: Option<&Named>) -> String {
        let name = named.map_or_else(|| format!("{:#x}", self.at), |named| named.name.clone());
        let value = |of| named.map_or_else(|| number(of), |named| named.value(of));
        match self.what {
            What::Read { again, len } => {
                let again = if again { " again" } else { "" };
                match named {
                    Some(Named { value: Some(_), .. }) => format!("reads {name}{again}"),
                    _ => format!("reads {len} bytes at {name}{again}"),
                }
            }
            What::Write { value: Some(new), .. } => format!("writes {name}: now {}", value(new)),
            What::Write { len, .. } => format!("writes {len} bytes at {name}"),
            What::CompareSwap { compare, swap, found } if compare == found => {
                format!("swaps {name}: was {}, now {}", value(found), value(swap))
            }
            What::CompareSwap { compare, found, .. } => {
                format!("swaps nothing: {name} is {}, not {}", value(found), value(compare))
            }
            What::FetchAdd { add, found } => {
                let sum = found.wrapping_add(add);
                format!("adds {} to {name}: was {}, now {}", number(add), value(found), value(sum))
            }
        }
    }

    /// What an atomic found, for people, as its requester is told; `None` of what is not an atomic.
    pub fn found(&self, named: Option<&Named>) -> Option<String> {
        let value = |of| named.map_or_else(|| number(of), |named| named.value(of));
        match self.what {
            What::CompareSwap { compare, found, .. } if compare == found => {
                Some(format!("found {}, swapped", value(found)))
            }
            What::CompareSwap { compare, found, .. } => {
                Some(format!("found {}, not {}", value(found), value(compare)))
            }
            What::FetchAdd { found, .. } => Some(format!("found {}", value(found))),
            What::Read { .. } | What::Write { .. } => None,
        }
    }
}

/// A number as people read it: small ones, and those a little below zero, as such; others by their bits.
fn number(value: u64) -> String {
    match value.cast_signed() {
        small @ -1_000..1_000_000 => small.to_string(),
        _ => format!("{value:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_to_memory_is_a_sentence_with_its_name_and_values() {
        let word =
            Named::with("lock 3's word", |word| if word == 0 { "free".into() } else { format!("n{word}") });
        for (line, named, unnamed) in [
            (
                "qp3 compare-swap psn=4 at=0x2000 compare=0x0 swap=0x2 found=0x0",
                "swaps lock 3's word: was free, now n2",
                "swaps 0x2000: was 0, now 2",
            ),
            (
                "qp3 compare-swap psn=4 at=0x2000 compare=0x0 swap=0x2 found=0x1",
                "swaps nothing: lock 3's word is n1, not free",
                "swaps nothing: 0x2000 is 1, not 0",
            ),
            (
                "qp3 fetch-add psn=4 at=0x2000 add=0x1 found=0x0",
                "adds 1 to lock 3's word: was free, now n1",
                "adds 1 to 0x2000: was 0, now 1",
            ),
            ("qp3 read psn=4 at=0x2000 len=8", "reads lock 3's word", "reads 8 bytes at 0x2000"),
            (
                "qp3 write psn=4 at=0x2000 len=8 value=0x0",
                "writes lock 3's word: now free",
                "writes 0x2000: now 0",
            ),
            (
                "qp3 write psn=4 at=0x2000 len=64",
                "writes 64 bytes at lock 3's word",
                "writes 64 bytes at 0x2000",
            ),
        ] {
            let executed = Executed::parse(line).expect(line);
            assert_eq!((executed.psn, executed.at), (4, 0x2000), "{line}");
            assert_eq!(executed.words(Some(&word)), named);
            assert_eq!(executed.words(None), unnamed);
        }
        let slot = Named::area("slot 2 of segment 5");
        let write = Executed::parse("qp3 write psn=4 at=0x2000 len=64").expect("a write");
        assert_eq!(write.words(Some(&slot)), "writes 64 bytes at slot 2 of segment 5");
        let read = Executed::parse("qp3 read-again psn=4 at=0x2000 len=64").expect("a read");
        assert_eq!(read.words(Some(&slot)), "reads 64 bytes at slot 2 of segment 5 again");
        assert_eq!(Executed::parse("qp3 read"), None);
    }
}
