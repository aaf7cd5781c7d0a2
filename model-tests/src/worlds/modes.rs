//! What the nodes of a world ask for, as users write it: `xs,s,*`.

use crate::explore::{ParamError, Params};
use protocols::locks::Mode;

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
    pub fn read(text: &str) -> Result<Requests, ParamError> {
        let mode = |letter| match letter {
            'x' => Ok(Some(Mode::Exclusive)),
            's' => Ok(Some(Mode::Shared)),
            '*' => Ok(None),
            other => Err(ParamError(format!("modes are x, s and *, not '{other}'"))),
        };
        let nodes = text.split(',').map(|node| node.trim().chars().map(mode).collect());
        let nodes: Vec<Vec<_>> = nodes.collect::<Result<_, _>>()?;
        let open = nodes.iter().flatten().filter(|mode| mode.is_none()).count();
        if nodes.len() < 2 || nodes.len() > Self::MOST.0 || open > Self::MOST.1 {
            let (most, open) = Self::MOST;
            return Err(ParamError(format!("a world has 2 to {most} nodes, and at most {open} open modes")));
        }
        Ok(Requests(nodes))
    }

    /// What a user's parameters say, or `default` where they say nothing.
    ///
    /// # Errors
    ///
    /// They contradict each other, or make no world.
    pub fn of(params: &Params, default: &str) -> Result<Requests, ParamError> {
        match (&params.modes, params.nodes, params.requests) {
            (Some(modes), nodes, requests) => {
                let read = Requests::read(modes)?;
                let fits = nodes.is_none_or(|nodes| nodes as usize == read.0.len())
                    && requests.is_none_or(|each| read.0.iter().all(|node| node.len() == each as usize));
                let contradiction = || ParamError("the modes say otherwise than nodes and requests".into());
                fits.then_some(read).ok_or_else(contradiction)
            }
            (None, None, None) => Requests::read(default),
            (None, nodes, requests) => {
                let node = "*".repeat(requests.unwrap_or(1).min(99) as usize);
                Requests::read(&vec![node; nodes.unwrap_or(3).min(99) as usize].join(","))
            }
        }
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

/// The same text for modes that are chosen.
pub fn text(modes: &[Vec<Mode>]) -> String {
    let letter = |mode: &Mode| if *mode == Mode::Shared { 's' } else { 'x' };
    modes.iter().map(|node| node.iter().map(letter).collect()).collect::<Vec<String>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mix_of_open_modes_comes_once() {
        let requests = Requests::read("*x,s,*").unwrap();
        let mixes: Vec<String> = (0..requests.mixes()).map(|mix| text(&requests.mix(mix))).collect();
        assert_eq!(mixes, ["sx,s,s", "xx,s,s", "sx,s,x", "xx,s,x"]);
    }

    #[test]
    fn parameters_add_up_or_are_refused() {
        let of = |nodes, requests, modes: Option<&str>| {
            Requests::of(&Params { nodes, requests, modes: modes.map(str::to_owned) }, "x,x")
        };
        assert_eq!(of(None, None, None), Requests::read("x,x"));
        assert_eq!(of(Some(2), Some(2), None), Requests::read("**,**"));
        assert_eq!(of(Some(2), None, Some("xs,s")), Requests::read("xs,s"));
        for (nodes, requests, modes) in
            [(Some(3), None, Some("x,s")), (None, Some(1), Some("xs,s")), (Some(1), None, None)]
        {
            assert!(of(nodes, requests, modes).is_err());
        }
        assert!(Requests::read("x,q").is_err());
    }
}
