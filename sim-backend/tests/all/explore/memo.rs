//! Programs that are memoised: what one does is done for it, and what becomes of it otherwise is nobody's.

use weft_sim::choice::First;
use weft_sim::explore::{Enabled, Outcome};
use weft_sim::memo::{ProgramCache, Root};
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Order, SimContext, SimMr, SimPd};
use weft_verbs::{AccessFlags, Context, Device, MemoryRegion, Node, Park, ProtectionDomain, Wait};

/// What the program is told, what it has made of that, and what it says when it is dropped: words of its memory.
const TOLD: usize = 0;
const MADE: usize = 8;
const FAREWELL: usize = 16;

/// A program that does one thing after every answer, and whose destructor calls the fabric, as that of a stream does, which tells
/// its peer that it is closed.
struct Polite(SimMr);

impl Node for Polite {
    fn step(&mut self) -> Park {
        let told = self.0.load(TOLD).unwrap();
        self.0.store(MADE, told + 1).unwrap();
        Park::Until { style: Wait::Poll, deadline: None }
    }
}

impl Drop for Polite {
    fn drop(&mut self) {
        let _ = self.0.store(FAREWELL, 1);
    }
}

type Built = (SimContext, SimPd, SimMr);

fn set_up(fabric: &Fabric) -> Built {
    let ctx = fabric.devices(NodeId(0))[0].open().unwrap();
    let pd = ctx.alloc_pd().unwrap();
    let mr = pd.alloc_mr(64, AccessFlags::LOCAL_WRITE).unwrap();
    fabric.mount(NodeId(0), Box::new(Polite(mr.clone())));
    (ctx, pd, mr)
}

/// Only so many programs are kept beside the tree of what they do. One that is given up for want of room is dropped in the midst
/// of an execution that it knows nothing of. Whatever its destructor does, it does to no state that anybody sees, at once or later.
#[test]
fn a_program_that_is_given_up_does_nothing_to_the_execution_at_hand() {
    let profile = Profile::builtin("ncosed-2007").unwrap();
    let config = Config { order: Order::Untimed, sanitize: false, ..Config::new(1, profile) };
    let fabric = Fabric::new(config, Box::new(First)).unwrap();
    let mut cache: ProgramCache<Built, ()> = ProgramCache::new(&fabric, Root::new(&fabric));
    let (mut memory, mut enabled, mut saved) = (None, Vec::<Enabled>::new(), None);
    for told in 0..100 {
        cache.begin(|| {
            let built = set_up(&fabric);
            memory.get_or_insert_with(|| built.2.clone());
            built
        });
        let memory = memory.as_ref().expect("it was set up");
        let is = |after: &str, made| {
            let words = [TOLD, MADE, FAREWELL].map(|word| memory.load(word).unwrap());
            assert_eq!(words, [told, made, 0], "execution {told}, {after}");
        };
        memory.store(TOLD, told).unwrap();
        cache.save(&mut saved);
        for after in ["at first", "once more"] {
            is(after, 0);
            fabric.enabled(&mut enabled);
            // Nobody has been told that before: the program runs, and no other is where it can be used for that.
            cache.take(enabled[0].event, Outcome::Done, None, || set_up(&fabric)).unwrap();
            is(after, told + 1);
            assert!(cache.put_back(saved.as_ref().expect("it was saved")));
        }
    }
    let stats = cache.stats();
    assert_eq!((stats.learned, stats.steps), (100, 200));
    assert!(stats.set_ups > 50, "programs are given up: {stats:?}");
}
