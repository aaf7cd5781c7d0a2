//! The call tree: what programs are known to do.
//!
//! A program is deterministic: what it does next depends on nothing but what it was answered since it began. So all that
//! programs were ever seen to do is kept as a tree. A node of it is where a program stands after certain answers. There
//! it makes a certain call, and each answer that the call ever had leads to another node; or it has an effect on
//! observers; or its step ends. A program that stands at a known node need not run: its calls are made for it, and their
//! answers say where it stands then. Only where nobody has seen what it does next it has to run itself: as far as that
//! node by the answers that lead there, and from there on with calls that are made.

use crate::world::World;
use std::any::Any;
use std::fmt;
use weft_verbs::Park;

/// A node of the tree: where a program stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TreeNode(u32);

/// The trees of all programs.
#[derive(Debug, Default)]
pub(crate) struct CallTree {
    nodes: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    parent: TreeNode,
    depth: u32,
    next: Next,
}

/// What a program does at a node.
enum Next {
    /// Nobody has seen it.
    Unknown,
    Calls(Box<dyn Call>),
    Affects(Box<dyn Fn()>, TreeNode),
    Parks(Park, TreeNode),
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Next::Unknown => f.write_str("Unknown"),
            Next::Calls(_) => f.write_str("Calls"),
            Next::Affects(_, to) => f.debug_tuple("Affects").field(to).finish(),
            Next::Parks(park, to) => f.debug_tuple("Parks").field(park).field(to).finish(),
        }
    }
}

/// A call, with every answer that it ever had.
trait Call {
    /// Makes it. An answer that it never had leads to `new`.
    fn make(&mut self, world: &mut World, new: TreeNode) -> TreeNode;

    /// The answer that leads to a node.
    fn answer(&self, to: TreeNode) -> &dyn Any;
}

struct Answered<C, A> {
    call: C,
    answers: Vec<(A, TreeNode)>,
}

impl<C: Fn(&mut World) -> A, A: PartialEq + 'static> Call for Answered<C, A> {
    fn make(&mut self, world: &mut World, new: TreeNode) -> TreeNode {
        let answer = (self.call)(world);
        if let Some((_, to)) = self.answers.iter().find(|(known, _)| *known == answer) {
            return *to;
        }
        self.answers.push((answer, new));
        new
    }

    fn answer(&self, to: TreeNode) -> &dyn Any {
        let (answer, _) = self.answers.iter().find(|(_, leads)| *leads == to).expect("it was answered so");
        answer
    }
}

impl CallTree {
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The root of another program's tree.
    pub fn begin(&mut self) -> TreeNode {
        let root = TreeNode(self.nodes.len() as u32);
        self.nodes.push(Entry { parent: root, depth: 0, next: Next::Unknown });
        root
    }

    /// The roots that were begun first, of so many programs.
    pub fn first_roots(programs: u32) -> impl Iterator<Item = TreeNode> {
        (0..programs).map(TreeNode)
    }

    fn child(&mut self, parent: TreeNode) -> TreeNode {
        let child = TreeNode(self.nodes.len() as u32);
        let depth = self.depth(parent) + 1;
        self.nodes.push(Entry { parent, depth, next: Next::Unknown });
        child
    }

    fn entry(&self, at: TreeNode) -> &Entry {
        &self.nodes[at.0 as usize]
    }

    fn set(&mut self, at: TreeNode, next: Next) {
        let place = &mut self.nodes[at.0 as usize].next;
        assert!(matches!(place, Next::Unknown), "{NON_DETERMINISTIC}");
        *place = next;
    }

    /// A program made a call where nobody had seen what it does, and was answered.
    pub fn called<A: PartialEq + 'static>(
        &mut self,
        at: TreeNode,
        call: impl Fn(&mut World) -> A + 'static,
        answer: A,
    ) -> TreeNode {
        let to = self.child(at);
        self.set(at, Next::Calls(Box::new(Answered { call, answers: vec![(answer, to)] })));
        to
    }

    /// It had an effect on observers.
    pub fn affected(&mut self, at: TreeNode, effect: impl Fn() + 'static) -> TreeNode {
        let to = self.child(at);
        self.set(at, Next::Affects(Box::new(effect), to));
        to
    }

    /// Its step ended.
    pub fn parked(&mut self, at: TreeNode, park: Park) -> TreeNode {
        let to = self.child(at);
        self.set(at, Next::Parks(park, to));
        to
    }

    /// The answer that leads to a node.
    pub fn answer(&self, to: TreeNode) -> &dyn Any {
        match &self.entry(self.entry(to).parent).next {
            Next::Calls(call) => call.answer(to),
            _ => panic!("{NON_DETERMINISTIC}"),
        }
    }

    /// Whether a program can come from one node to another.
    pub fn leads(&self, from: TreeNode, to: TreeNode) -> bool {
        let depth = self.depth(from);
        let mut at = to;
        while self.depth(at) > depth {
            at = self.entry(at).parent;
        }
        at == from
    }

    /// How far a node is from its program's root.
    pub fn depth(&self, of: TreeNode) -> u32 {
        self.entry(of).depth
    }

    /// The nodes after one and up to another.
    pub fn path(&self, from: TreeNode, to: TreeNode) -> Vec<TreeNode> {
        let mut path = Vec::new();
        let mut at = to;
        while at != from {
            path.push(at);
            at = self.entry(at).parent;
        }
        path.reverse();
        path
    }

    /// Does what is known to be done from a node on, until a step ends or nothing more is known.
    fn run(&mut self, world: &mut World, mut at: TreeNode) -> (TreeNode, Option<Park>) {
        loop {
            let new = TreeNode(self.nodes.len() as u32);
            match &mut self.nodes[at.0 as usize].next {
                Next::Unknown => return (at, None),
                Next::Calls(call) => {
                    let to = call.make(world, new);
                    if to == new {
                        self.child(at);
                    }
                    at = to;
                }
                Next::Affects(effect, to) => {
                    effect();
                    at = *to;
                }
                Next::Parks(park, to) => return (*to, Some(*park)),
            }
        }
    }
}

/// A program did something else after the same answers.
pub(super) const NON_DETERMINISTIC: &str = "a program does the same after the same answers";

impl World {
    /// Does for a program what is known to be done from a node on, until its step ends. `None` if that is not known: the
    /// node is then the last one that is.
    pub(super) fn run_memoised(&mut self, at: TreeNode) -> (TreeNode, Option<Park>) {
        let Some(mut tree) = self.recorder.tree.take() else { return (at, None) };
        let ran = tree.run(self, at);
        self.recorder.tree = Some(tree);
        ran
    }
}
