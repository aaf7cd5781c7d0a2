//! What the nodes of a world ask for, as users write it: `xs,s,*`.

use crate::explore::{Key, Size, SizeError};
use std::fmt;
use weft_protocols::locks::Mode;

/// What each node asks for, one request after the other; `None` stands for either mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests(Vec<Vec<Option<Mode>>>);

impl Requests {
    /// Most nodes, and most requests of which the mode is left open.
    const MOST: (usize, usize) = (8, 16);

    /// Reads a list of nodes with a letter for each request: `x` exclusive, `s` shared, `*` either.
    ///
    /// # Errors
    ///
    /// Another letter, no node, or too many.
    pub fn read(text: &str) -> Result<Requests, SizeError> {
        let mode = |letter| match letter {
            'x' => Ok(Some(Mode::Exclusive)),
            's' => Ok(Some(Mode::Shared)),
            '*' => Ok(None),
            other => Err(SizeError(format!("modes are x, s and *, not '{other}'"))),
        };
        let nodes = text.split(',').map(|node| node.trim().chars().map(mode).collect());
        let nodes: Vec<Vec<_>> = nodes.collect::<Result<_, _>>()?;
        let open = nodes.iter().flatten().filter(|mode| mode.is_none()).count();
        if nodes.len() < 2 || nodes.len() > Self::MOST.0 || open > Self::MOST.1 {
            let (most, open) = Self::MOST;
            return Err(SizeError(format!("a world has 2 to {most} nodes, and at most {open} open modes")));
        }
        Ok(Requests(nodes))
    }

    /// The keys of a size that says this.
    pub const KEYS: &[Key] = &[
        Key { name: "modes", help: "what each node asks for, as in xs,s,*: x exclusive, s shared, * either" },
        Key { name: "nodes", help: "how many nodes ask, each for either mode" },
        Key { name: "requests", help: "how often each of them asks" },
    ];

    /// What a size says, or `default` where it says nothing.
    ///
    /// # Errors
    ///
    /// Its values contradict each other, or make no world.
    pub fn of(size: &Size, default: &str) -> Result<Requests, SizeError> {
        match (size.text("modes"), size.number("nodes")?, size.number("requests")?) {
            (Some(modes), nodes, requests) => {
                let read = Requests::read(&modes)?;
                let fits = nodes.is_none_or(|nodes| nodes as usize == read.0.len())
                    && requests.is_none_or(|each| read.0.iter().all(|node| node.len() == each as usize));
                let contradiction = || SizeError("the modes say otherwise than nodes and requests".into());
                fits.then_some(read).ok_or_else(contradiction)
            }
            (None, None, None) => Requests::read(default),
            (None, nodes, requests) => {
                let requests = size.within("requests", requests.unwrap_or(1), 1..=99)?;
                let node = "*".repeat(requests as usize);
                Requests::read(&vec![node; nodes.unwrap_or(3).min(99) as usize].join(","))
            }
        }
    }

    /// The size that says the same.
    pub fn size(&self) -> Size {
        Size::new([("modes", self.to_string())])
    }

    /// What is smaller by one thing: without one node, without one request, or with one open mode chosen.
    pub fn smaller(&self) -> Vec<Requests> {
        let nodes = 0..self.0.len();
        let without_node = |node| Requests([&self.0[..node], &self.0[node + 1..]].concat());
        let with = |node: usize, change: &dyn Fn(&mut Vec<Option<Mode>>)| {
            let mut smaller = self.clone();
            change(&mut smaller.0[node]);
            smaller
        };
        let mut all = Vec::new();
        if self.0.len() > 2 {
            all.extend(nodes.clone().map(without_node));
        }
        for node in nodes.clone() {
            // Of equal requests in a row, any one: the last.
            let of = &self.0[node];
            let last = |at: &usize| of.get(at + 1) != Some(&of[*at]);
            let without = |at: usize| with(node, &|modes| modes.splice(at..=at, []).for_each(drop));
            all.extend((0..of.len()).filter(last).map(without));
        }
        for node in nodes {
            let Some(open) = self.0[node].iter().position(Option::is_none) else { continue };
            all.extend(
                [Mode::Shared, Mode::Exclusive].map(|mode| with(node, &|modes| modes[open] = Some(mode))),
            );
        }
        all
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.0.len() as u32
    }

    /// In how many ways the open modes can be chosen.
    pub fn mixes(&self) -> usize {
        1 << self.0.iter().flatten().filter(|mode| mode.is_none()).count()
    }

    /// One of them.
    pub fn mix(&self, number: usize) -> Vec<Vec<Mode>> {
        let mut left = number;
        let mut chosen = |mode: &Option<Mode>| {
            mode.unwrap_or_else(|| {
                let shared = left & 1 == 0;
                left >>= 1;
                if shared { Mode::Shared } else { Mode::Exclusive }
            })
        };
        self.0.iter().map(|node| node.iter().map(&mut chosen).collect()).collect()
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = |node: &Vec<Option<Mode>>| node.iter().map(|mode| mode.map_or('*', letter)).collect();
        f.write_str(&self.0.iter().map(node).collect::<Vec<String>>().join(","))
    }
}

const fn letter(mode: Mode) -> char {
    match mode {
        Mode::Shared => 's',
        Mode::Exclusive => 'x',
    }
}

/// The same text for modes that are chosen.
pub fn text(modes: &[Vec<Mode>]) -> String {
    modes.iter().map(|node| node.iter().copied().map(letter).collect()).collect::<Vec<String>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::Value;

    #[test]
    fn every_mix_of_open_modes_comes_once() {
        let requests = Requests::read("*x,s,*").unwrap();
        let mixes: Vec<String> = (0..requests.mixes()).map(|mix| text(&requests.mix(mix))).collect();
        assert_eq!(mixes, ["sx,s,s", "xx,s,s", "sx,s,x", "xx,s,x"]);
    }

    #[test]
    fn what_is_smaller_lacks_one_thing() {
        let smaller = |text| Requests::read(text).unwrap().smaller();
        let text = |text| smaller(text).iter().map(Requests::to_string).collect::<Vec<_>>();
        assert_eq!(text("x,s*,"), ["s*,", "x,", "x,s*", ",s*,", "x,*,", "x,s,", "x,ss,", "x,sx,"]);
        assert_eq!((text("x,s"), text(",")), (vec![",s".into(), "x,".into()], vec![]));
    }

    #[test]
    fn values_of_a_size_add_up_or_are_refused() {
        let of = |values: &[(&str, &str)]| {
            let values = values.iter().map(|&(key, value)| (key, value.parse::<Value>().unwrap()));
            Requests::of(&Size::new(values), "x,x")
        };
        assert_eq!(of(&[]), Requests::read("x,x"));
        assert_eq!(of(&[("nodes", "2"), ("requests", "2")]), Requests::read("**,**"));
        assert_eq!(of(&[("nodes", "2"), ("modes", "xs,s")]), Requests::read("xs,s"));
        for wrong in [
            &[("nodes", "3"), ("modes", "x,s")][..],
            &[("requests", "1"), ("modes", "xs,s")],
            &[("requests", "0")],
            &[("nodes", "1")],
            &[("nodes", "many")],
        ] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        assert!(Requests::read("x,q").is_err());
    }
}
