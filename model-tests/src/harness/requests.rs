//! What the clients of a model ask for, as users write it: `p,gg+p` is three letters of two clients on the second of two nodes,
//! and one on the first.

use crate::history::ClientId;
use std::fmt;

/// For each node, for each of its clients, a letter for each of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests(Vec<Vec<String>>);

impl Requests {
    /// Reads them: nodes are parted by commas, clients of a node by plus signs, and any other letter is a request.
    pub fn parse(text: &str) -> Requests {
        let clients = |node: &str| node.split('+').map(|client| client.trim().to_owned()).collect();
        Requests(text.split(',').map(clients).collect())
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.0.len() as u32
    }

    /// The clients of a node, and the letters of each.
    pub fn of(&self, node: u32) -> impl Iterator<Item = (ClientId, &str)> {
        let clients = (0..).zip(&self.0[node as usize]);
        clients.map(move |(index, letters)| (ClientId { node, index }, letters.as_str()))
    }

    /// Every letter, with who asks.
    pub fn all(&self) -> impl Iterator<Item = (ClientId, char)> {
        let clients = (0..self.nodes()).flat_map(|node| self.of(node));
        clients.flat_map(|(client, letters)| letters.chars().map(move |letter| (client, letter)))
    }

    /// The calls that letters ask for: each letter, and whether an exclamation mark behind it says that its user may quit.
    pub fn calls(letters: &str) -> impl Iterator<Item = (char, bool)> {
        let mut rest = letters.chars().peekable();
        std::iter::from_fn(move || Some((rest.next()?, rest.next_if_eq(&'!').is_some())))
    }

    /// Those without one node, without one client, or without the last request of one client.
    pub fn smaller(&self, least_nodes: u32) -> Vec<Requests> {
        let mut all = Vec::new();
        for (node, clients) in self.0.iter().enumerate() {
            let mut less = |change: &dyn Fn(&mut Vec<Vec<String>>)| {
                let mut requests = self.clone();
                change(&mut requests.0);
                all.push(requests);
            };
            if self.nodes() > least_nodes {
                less(&|nodes| drop(nodes.remove(node)));
            }
            for (client, letters) in clients.iter().enumerate() {
                if clients.len() > 1 {
                    less(&|nodes| drop(nodes[node].remove(client)));
                }
                if letters.chars().count() > 1 {
                    less(&|nodes| _ = nodes[node][client].pop());
                }
            }
        }
        all
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<String> = self.0.iter().map(|clients| clients.join("+")).collect();
        f.write_str(&nodes.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_their_text() {
        for text in ["p,gg", "p+g,,gp+p", ","] {
            assert_eq!(Requests::parse(text).to_string(), text);
        }
        let requests = Requests::parse("p, gg+p");
        let of_second: Vec<_> = requests.of(1).map(|(id, letters)| (id.index, letters)).collect();
        assert_eq!((requests.nodes(), of_second), (2, vec![(0, "gg"), (1, "p")]));
    }

    #[test]
    fn a_mark_behind_a_letter_is_of_that_letter() {
        let calls = |letters| Requests::calls(letters).collect::<Vec<_>>();
        assert_eq!(calls("p!gx!"), [('p', true), ('g', false), ('x', true)]);
        assert_eq!(calls("!"), [('!', false)], "which is no letter");
    }

    #[test]
    fn a_smaller_list_lacks_one_thing() {
        let smaller = |text: &str, least| {
            Requests::parse(text).smaller(least).iter().map(Requests::to_string).collect::<Vec<_>>()
        };
        assert_eq!(smaller("p,gg", 2), ["p,g"]);
        assert_eq!(smaller("p,g+pp", 1), ["g+pp", "p", "p,pp", "p,g", "p,g+p"]);
        assert!(smaller("p,g", 2).is_empty());
    }
}
