//! Scripts of calls, as worlds' sizes have them: written in one way in all worlds.
//!
//! Nodes (or threads) are parted by commas, clients of a node by plus signs; a call is a letter with its marks, or, where there are dots, a
//! word between two.

/// How calls are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Notation {
    /// Each as a letter with its marks.
    #[default]
    Letters,
    /// Each as a word, with dots between.
    Words,
}

/// For each node, for each of its clients, its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    pub nodes: Vec<Vec<Vec<String>>>,
    pub notation: Notation,
}

impl Notation {
    /// Reads a script.
    pub fn script(self, text: &str) -> Script {
        let node = |node: &str| match self {
            Notation::Letters => node.split('+').map(|calls| self.calls(calls)).collect(),
            // A plus sign is a part of a word.
            Notation::Words => vec![self.calls(node)],
        };
        Script { nodes: text.split(',').map(node).collect(), notation: self }
    }

    /// The calls of one client.
    pub fn calls(self, text: &str) -> Vec<String> {
        if self == Notation::Words {
            return text.split('.').filter(|call| !call.is_empty()).map(str::to_owned).collect();
        }
        let mut calls: Vec<String> = Vec::new();
        for letter in text.chars() {
            match calls.last_mut() {
                Some(call) if !letter.is_alphanumeric() && letter != '*' => call.push(letter),
                _ => calls.push(letter.to_string()),
            }
        }
        calls
    }

    /// The same in one text.
    pub fn told(self, calls: &[String]) -> String {
        calls.join(match self {
            Notation::Letters => "",
            Notation::Words => ".",
        })
    }

    /// Has a call's user drop it, or not.
    pub fn toggle(self, call: &mut String) {
        let mark = self.mark();
        match call.strip_suffix(mark).map(str::to_owned) {
            Some(without) => *call = without,
            None => call.push(mark),
        }
    }

    /// What stands behind a call that its user may drop.
    fn mark(self) -> char {
        match self {
            Notation::Letters => '!',
            Notation::Words => '-',
        }
    }

    /// Whether a call's user leaves it, and drops it at some time.
    fn is_left(self, call: &str) -> bool {
        self == Notation::Letters && call.ends_with('?')
    }
}

impl Script {
    /// How many calls it has.
    pub fn len(&self) -> usize {
        self.nodes.iter().flatten().map(Vec::len).sum()
    }

    /// As it is written.
    pub fn text(&self) -> String {
        let client = |calls: &Vec<String>| self.notation.told(calls);
        let node = |clients: &Vec<Vec<String>>| clients.iter().map(client).collect::<Vec<_>>().join("+");
        self.nodes.iter().map(node).collect::<Vec<_>>().join(",")
    }

    /// How many calls their users may drop.
    pub fn marked(&self) -> usize {
        let mark = self.notation.mark();
        self.nodes.iter().flatten().flatten().filter(|call| call.ends_with(mark)).count()
    }

    /// The same of users that have made up their minds: of the calls that they may drop, in turn, they drop one at once or never. What they
    /// leave they drop at once.
    pub fn dropping(mut self, drops: &mut impl Iterator<Item = bool>) -> Script {
        let (notation, mark) = (self.notation, self.notation.mark());
        let is_dropped = |call: &String, drops: &mut dyn Iterator<Item = bool>| {
            notation.is_left(call) || (call.ends_with(mark) && drops.next() == Some(true))
        };
        self.nodes.iter_mut().flatten().for_each(|calls| calls.retain(|call| !is_dropped(call, drops)));
        self.nodes.iter_mut().flatten().flatten().for_each(|call| *call = call.replace(mark, ""));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_and_told_the_same_way() {
        for (text, calls) in [("cs!x,r?e+w", 6), ("p,gg", 3), (",", 0), ("xs,s,*", 4)] {
            let script = Notation::Letters.script(text);
            assert_eq!((script.text(), script.len()), (text.to_owned(), calls));
        }
        let script = Notation::Words.script("x+.b-.xy!,y?");
        assert_eq!((script.text(), script.len()), ("x+.b-.xy!,y?".to_owned(), 4));
    }

    #[test]
    fn calls_that_may_be_dropped_are_or_are_not() {
        let changed = |notation: Notation, text, drops: [bool; 2]| {
            let script = notation.script(text);
            (script.marked(), script.dropping(&mut drops.into_iter()).text())
        };
        let letters = |drops| changed(Notation::Letters, "cs!x,r?e+w!", drops);
        assert_eq!(letters([false, false]), (2, "csx,e+w".to_owned()), "what is left is dropped");
        assert_eq!(letters([true, false]), (2, "cx,e+w".to_owned()));
        assert_eq!(letters([true, true]), (2, "cx,e+".to_owned()));
        let words = |drops| changed(Notation::Words, "x+.b-.xy!,y?-", drops);
        assert_eq!(words([false, false]), (2, "x+.b.xy!,y?".to_owned()));
        assert_eq!(words([false, true]), (2, "x+.b.xy!,".to_owned()));
    }
}
