use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What the wheel must equal: times in order, first in first out at each.
#[derive(Default, Clone)]
struct Model {
    base: u64,
    pending: BTreeMap<u64, Vec<u32>>,
}

impl Model {
    fn insert(&mut self, time: u64, item: u32) {
        self.pending.entry(time.max(self.base)).or_default().push(item);
    }
    fn pop(&mut self) -> Option<(Nanos, u32)> {
        let mut first = self.pending.first_entry()?;
        let (time, item) = (*first.key(), first.get_mut().remove(0));
        if first.get().is_empty() {
            first.remove();
        }
        self.base = time;
        Some((Nanos(time), item))
    }
    fn take_earliest(&mut self, out: &mut Vec<u32>) -> Option<Nanos> {
        let (time, items) = self.pending.pop_first()?;
        self.base = time;
        out.extend(items);
        Some(Nanos(time))
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// So far after (or before) the last event taken.
    Insert(i64),
    At(u64),
    Pop,
    Take,
    Copy,
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (-5i64..40).prop_map(Op::Insert),
        4 => (0i64..10_000).prop_map(Op::Insert),
        2 => (4_000i64..13_000).prop_map(Op::Insert),
        1 => (0i64..10_000_000).prop_map(Op::Insert),
        1 => (0i64..10_000_000_000).prop_map(Op::Insert),
        1 => any::<u64>().prop_map(Op::At),
        1 => Just(Op::At(u64::MAX)),
        6 => Just(Op::Pop),
        3 => Just(Op::Take),
        1 => Just(Op::Copy),
        1 => prop::bool::weighted(0.05).prop_map(|c| if c { Op::Clear } else { Op::Pop }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn it_orders_events_as_a_sorted_map_does(ops in prop::collection::vec(op(), 1..400)) {
        let (mut wheel, mut model, mut spare) = (Wheel::new(), Model::default(), Wheel::new());
        for (item, op) in (0u32..).zip(ops) {
            match op {
                Op::Insert(by) => {
                    let time = model.base.saturating_add_signed(by);
                    wheel.insert(Nanos(time), item);
                    model.insert(time, item);
                }
                Op::At(time) => {
                    wheel.insert(Nanos(time), item);
                    model.insert(time, item);
                }
                Op::Pop => prop_assert_eq!(wheel.pop(), model.pop()),
                Op::Take => {
                    let (mut a, mut b) = (vec![], vec![]);
                    prop_assert_eq!(wheel.take_earliest(&mut a), model.take_earliest(&mut b));
                    prop_assert_eq!(a, b);
                }
                Op::Copy => {
                    spare.clone_from(&wheel);
                    std::mem::swap(&mut spare, &mut wheel);
                }
                Op::Clear => {
                    wheel.clear();
                    model = Model::default();
                }
            }
            prop_assert_eq!(wheel.peek_time(), model.pending.keys().next().map(|&t| Nanos(t)));
            prop_assert_eq!(wheel.len(), model.pending.values().map(Vec::len).sum::<usize>());
        }
        let mut all: Vec<_> = wheel.iter().map(|(t, &i)| (t.0, i)).collect();
        all.sort_unstable();
        let mut want: Vec<_> = model.pending.iter().flat_map(|(&t, v)| v.iter().map(move |&i| (t, i))).collect();
        want.sort_unstable();
        prop_assert_eq!(all, want);
        while let Some(got) = wheel.pop() {
            prop_assert_eq!(Some(got), model.pop());
        }
        prop_assert_eq!(model.pop(), None);
    }
}

#[test]
fn peeking_ahead_does_not_close_the_time_before() {
    let mut wheel = Wheel::new();
    wheel.insert(Nanos(1_000_000), 'b');
    assert_eq!(wheel.peek_time(), Some(Nanos(1_000_000)));
    wheel.insert(Nanos(600), 'a');
    assert_eq!(wheel.pop(), Some((Nanos(600), 'a')));
    assert_eq!(wheel.pop(), Some((Nanos(1_000_000), 'b')));
}

#[test]
fn a_steady_state_allocates_nothing() {
    let mut wheel = Wheel::new();
    for i in 0..100u64 {
        wheel.insert(Nanos(i * 37), i);
    }
    let room = wheel.entries.capacity();
    for i in 0..100_000u64 {
        let (t, _) = wheel.pop().expect("pending");
        wheel.insert(t + Nanos(i * 7_919 % 50_000), i);
    }
    assert_eq!((wheel.len(), wheel.entries.len(), wheel.entries.capacity()), (100, 100, room));
}

#[test]
fn a_cleared_wheel_is_as_new() {
    let mut wheel = Wheel::new();
    wheel.insert(Nanos(1 << 40), 1);
    wheel.insert(Nanos(5), 2);
    wheel.pop();
    wheel.clear();
    assert_eq!((wheel.peek_time(), wheel.len()), (None, 0));
    wheel.insert(Nanos(3), 3);
    assert_eq!(wheel.pop(), Some((Nanos(3), 3)));
}
