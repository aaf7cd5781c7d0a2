//! Words under atomics.

use super::support::*;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::rc::Rc;

/// Where `b` has a word under atomics.
const WORD: usize = 64;

/// A world in which one atomic was executed on the word.
fn under_atomics() -> Three {
    let world = three();
    fetch_add(&world.a, 1, 0, world.b.remote(WORD, 8));
    settle(&world.fabric);
    assert_eq!(world.a.polled().len(), 1);
    world
}

#[test]
fn a_word_may_be_prepared_before_the_first_atomic() {
    let (fabric, a, b) = two();
    store(&b.mr, 64);
    write(&b.mr, 0, 4096);
    fetch_add(&a, 1, 0, b.remote(64, 8));
    settle(&fabric);
    assert_eq!(rules(&fabric), []);
}

#[test]
fn the_processor_may_not_change_a_word_under_atomics() {
    let Three { fabric, a, b, .. } = &under_atomics();
    assert_eq!(breaks(fabric, || store(&b.mr, WORD)), [Rule::MixedAtomics]);
    assert_eq!(breaks(fabric, || write(&b.mr, 0, WORD + 1)), [Rule::MixedAtomics]);
    assert_eq!(breaks(fabric, || write(&b.mr, WORD + 7, 100)), [Rule::MixedAtomics]);
    assert_eq!(breaks(fabric, || claim(&b.mr, WORD, 8)), [Rule::MixedAtomics]);
    let found = fabric.violations()[0];
    let add = Action::Request { op: WcOp::FetchAdd, qp: Some(a.qp.num()), wr_id: Some(1) };
    assert_eq!((found.first.node, found.first.action, found.first.addr), (NodeId(0), add, b.mr.addr() + 64));
    assert_eq!((found.second.node, found.second.action), (NodeId(2), Action::Write));
}

#[test]
fn neighbours_of_a_word_under_atomics_are_free() {
    let Three { fabric, b, .. } = &under_atomics();
    let beside = || {
        write(&b.mr, 0, WORD);
        write(&b.mr, WORD + 8, 1000);
        store(&b.mr, WORD - 8);
        store(&b.mr, WORD + 8);
    };
    assert_eq!(breaks(fabric, beside), []);
}

#[test]
fn a_word_under_atomics_may_be_looked_at_when_nothing_can_change_it() {
    let Three { fabric, a, b, .. } = &under_atomics();
    assert_eq!(breaks(fabric, || (load(&b.mr, WORD), read(&b.mr, 0, 4096))), [], "at rest");
    fetch_add(a, 2, 8, b.remote(WORD, 8));
    assert_eq!(breaks(fabric, || load(&b.mr, WORD)), [Rule::MixedAtomics], "posted");
    let found = *fabric.violations().last().unwrap();
    let add = Action::Request { op: WcOp::FetchAdd, qp: Some(a.qp.num()), wr_id: Some(2) };
    assert_eq!((found.first.action, found.second.action), (add, Action::Read));
    run_until(fabric, || fabric.stats().messages == 2);
    assert_eq!(breaks(fabric, || load(&b.mr, WORD)), [], "executed, and the answer is on its way");
}

#[test]
fn an_atomic_of_a_queue_pair_that_is_gone_changes_nothing_any_more() {
    let Three { fabric, a, b, .. } = &under_atomics();
    fetch_add(a, 2, 8, b.remote(WORD, 8));
    a.qp.modify(&Modify::Reset).unwrap();
    assert_eq!(breaks(fabric, || load(&b.mr, WORD)), []);
}

#[test]
fn a_plain_write_by_another_queue_pair_is_not_in_order_with_the_atomics() {
    let Three { fabric, c, b, .. } = &under_atomics();
    let write = |at, len: u32| {
        c.post(3, SendOp::Write { to: b.remote(at, len as usize), imm: None }, 0, len, SendFlags::SIGNALED);
        settle(fabric);
    };
    assert_eq!(breaks(fabric, || write(WORD, 8)), [Rule::MixedAtomics]);
    let found = fabric.violations()[0];
    let plain = Action::Request { op: WcOp::Write, qp: Some(c.qp.num()), wr_id: Some(3) };
    assert_eq!((found.second.node, found.second.action, found.first.node), (NodeId(1), plain, NodeId(0)));
    assert_eq!(breaks(fabric, || (write(0, 64), write(72, 64))), [], "beside it");
}

#[test]
fn a_message_that_lands_on_a_word_under_atomics_is_no_better() {
    let Three { fabric, c, b, b_to_c, .. } = &under_atomics();
    b_to_c.post_recv(&[RecvWr { wr_id: 1, data: &b.sge(WORD as u32, 8) }]).unwrap();
    c.send(1, 0, 8);
    assert_eq!(breaks(fabric, || settle(fabric)), [Rule::MixedAtomics]);
}

#[test]
fn the_queue_pair_of_the_atomics_may_write_plainly() {
    let Three { fabric, a, c, b, .. } = &under_atomics();
    let plain = || {
        a.post(3, SendOp::Write { to: b.remote(WORD, 8), imm: None }, 0, 8, SendFlags::SIGNALED);
        settle(fabric);
    };
    assert_eq!(breaks(fabric, plain), [], "the only one");
    fetch_add(c, 1, 0, b.remote(WORD, 8));
    settle(fabric);
    assert_eq!(breaks(fabric, plain), [Rule::MixedAtomics], "one of two");
    fetch_add(a, 4, 0, b.remote(WORD, 8));
    settle(fabric);
    assert_eq!(breaks(fabric, plain), [Rule::MixedAtomics], "one of two, and the last");
}

#[test]
fn a_plain_write_after_the_other_queue_pair_is_fenced_is_in_order() {
    let Three { fabric, c, b, .. } = &under_atomics();
    b.qp.modify(&Modify::Err).unwrap();
    c.post(3, SendOp::Write { to: b.remote(WORD, 8), imm: None }, 0, 8, SendFlags::SIGNALED);
    assert_eq!(breaks(fabric, || settle(fabric)), []);
}

#[test]
fn a_remote_read_of_a_word_under_atomics_goes_through_the_adapter() {
    let Three { fabric, a, c, b, .. } = &under_atomics();
    fetch_add(a, 2, 0, b.remote(WORD, 8));
    c.post(3, SendOp::Read { from: b.remote(WORD, 8) }, 0, 8, SendFlags::SIGNALED);
    assert_eq!(breaks(fabric, || settle(fabric)), []);
}

#[test]
fn an_atomic_in_the_middle_of_a_plain_write_is_reported() {
    let Three { fabric, a, b, c, .. } = &three();
    a.post(1, SendOp::Write { to: b.remote(0, 32_768), imm: None }, 0, 32_768, SendFlags::SIGNALED);
    run_until(fabric, || fabric.stats().delivered >= 2);
    fetch_add(c, 2, 0, b.remote(64, 8));
    settle(fabric);
    assert_eq!(rules(fabric), [Rule::MixedAtomics]);
}

/// Memory that an application registers several times.
#[derive(Clone)]
struct Shared(Rc<[UnsafeCell<u64>]>);

// SAFETY: the counted cells do not move while a clone lives, are valid for reads and writes, and nothing but the
// regions refers to them.
#[allow(unsafe_code, reason = "an application's promise about the memory that it brings")]
unsafe impl PinnedMemory for Shared {
    fn ptr(&self) -> NonNull<u8> {
        NonNull::from(&*self.0).cast()
    }

    fn len(&self) -> usize {
        8 * self.0.len()
    }
}

/// Two nodes of two adapters, the second node's adapters having the same 64 bytes; a connection from adapter to
/// adapter, with the region at the far end.
fn rails() -> (Fabric, Vec<(Side, Side, SimMr)>) {
    let config = Config { devices: 2, sanitize: true, ..Config::new(2, profile()) };
    let fabric = fabric_with(config, Box::new(weft_sim::choice::Seeded::new(1)));
    let memory = Shared((0..8).map(UnsafeCell::new).collect());
    let rail = |device| {
        let side = |node| Side::on(&fabric, (node, device), QpCaps::default(), 64);
        let (near, far) = (side(0), side(1));
        near.connect(rtr(&far), rts());
        far.connect(rtr(&near), rts());
        let words = far.pd.register(Box::new(memory.clone()), ALL).unwrap();
        (near, far, words)
    };
    let rails = [0, 1].map(rail).into();
    (fabric, rails)
}

#[test]
fn atomics_of_two_devices_on_one_word_know_nothing_of_each_other() {
    let (fabric, rails) = rails();
    let add = |rail: usize, at: usize| {
        let (near, _, words) = &rails[rail];
        fetch_add(near, 1, 0, words.remote(at..at + 8).unwrap());
        breaks(&fabric, || settle(&fabric))
    };
    assert_eq!(add(0, 8), []);
    assert_eq!(add(1, 16), [], "another word");
    assert_eq!(add(0, 8), [], "the same device");
    assert_eq!(add(1, 8), [Rule::MixedAtomics]);
    let found = fabric.violations()[0];
    assert_eq!((found.first.addr, found.second.addr), (rails[0].2.addr() + 8, rails[1].2.addr() + 8));
}

#[test]
fn a_word_may_move_to_another_device_when_the_first_ones_connection_is_fenced() {
    let (fabric, rails) = rails();
    let add = |rail: usize| {
        fetch_add(&rails[rail].0, 1, 0, rails[rail].2.remote(0..8).unwrap());
        breaks(&fabric, || settle(&fabric))
    };
    assert_eq!(add(0), []);
    rails[0].1.qp.modify(&Modify::Err).unwrap();
    assert_eq!(add(1), []);
}

#[test]
fn a_word_is_forgotten_with_its_region() {
    let (fabric, a, b) = two();
    let words = b.pd.alloc_mr(64, ALL).unwrap();
    fetch_add(&a, 1, 0, words.remote(0..8).unwrap());
    settle(&fabric);
    drop(words);
    let words = b.pd.alloc_mr(64, ALL).unwrap();
    assert_eq!(breaks(&fabric, || store(&words, 0)), []);
}
