//! Compare-and-swap and fetch-and-add (IBA 9.4.5, 10.7.2.3).

use super::prelude::*;

cases! { "atomics":
    a_compare_and_swap_that_matches_swaps_and_returns_the_old_value, "9.4.5", needs Caps::ATOMICS;
    a_compare_and_swap_that_differs_changes_nothing_and_returns_the_old_value, "9.4.5", needs Caps::ATOMICS;
    a_fetch_and_add_adds_and_returns_the_old_value, "9.4.5", needs Caps::ATOMICS;
    a_fetch_and_add_wraps_at_two_to_the_64, "9.4.5", needs Caps::ATOMICS;
    an_atomic_touches_no_byte_beside_its_word, "9.4.5", needs Caps::ATOMICS;
    more_atomics_than_may_be_in_flight_wait_their_turn, "9.7.3; 11.2.5.2", needs Caps::ATOMICS;
    more_in_flight_than_the_peer_serves_is_never_done_twice, "9.7.4.1.2; 9.7.5.1.5", needs Caps::ATOMICS,
        with HarnessCaps::STRIKE;
    atomics_of_one_queue_pair_execute_in_order, "9.5", needs Caps::ATOMICS;
    additions_of_many_nodes_are_each_counted_once, "9.4.5", needs Caps::ATOMICS;
    swaps_of_many_nodes_each_win_once, "9.4.5", needs Caps::ATOMICS;
}

fn a_compare_and_swap_that_matches_swaps_and_returns_the_old_value<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for (old, new) in [(0, u64::MAX), (u64::MAX, 0x0123_4567_89ab_cdef), (0x0123_4567_89ab_cdef, 0)] {
        check_eq!(b.mr.load(8)?, old, "the word before");
        a.compare_swap(1, 0, b.word(8)?, old, new)?;
        bed.done(&a.sends, 1)?;
        check_eq!(a.mr.load(0)?, old, "the old value");
        check_eq!(b.mr.load(8)?, new, "the word after");
    }
    Ok(())
}

fn a_compare_and_swap_that_differs_changes_nothing_and_returns_the_old_value<H: Harness>(
    bed: &mut TestBed<'_, H>,
) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let word = 0x8000_0000_0000_0001;
    b.mr.store(8, word)?;
    for wrong in [0, 1, word - 1, word + 1, word.swap_bytes(), 0x8000_0000_0000_0000] {
        a.mr.store(0, 0)?;
        a.compare_swap(1, 0, b.word(8)?, wrong, 5)?;
        bed.done(&a.sends, 1)?;
        check_eq!(a.mr.load(0)?, word, "the old value after comparing with {wrong:#x}");
        check_eq!(b.mr.load(8)?, word, "the word after comparing with {wrong:#x}");
    }
    Ok(())
}

fn a_fetch_and_add_adds_and_returns_the_old_value<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    let mut sum = 0u64;
    for add in [0, 1, 255, 1 << 32, 0xffff_ffff, 1 << 62] {
        a.fetch_add(1, 0, b.word(8)?, add)?;
        bed.done(&a.sends, 1)?;
        check_eq!(a.mr.load(0)?, sum, "the old value before adding {add}");
        sum += add;
        check_eq!(b.mr.load(8)?, sum, "the word after adding {add}");
    }
    Ok(())
}

fn a_fetch_and_add_wraps_at_two_to_the_64<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    b.mr.store(8, u64::MAX - 1)?;
    a.fetch_add(1, 0, b.word(8)?, 3)?;
    bed.done(&a.sends, 1)?;
    check_eq!((a.mr.load(0)?, b.mr.load(8)?), (u64::MAX - 1, 1), "old value and word");
    a.fetch_add(2, 0, b.word(8)?, u64::MAX)?;
    bed.done(&a.sends, 2)?;
    check_eq!((a.mr.load(0)?, b.mr.load(8)?), (1, 0), "old value and word after adding -1");
    Ok(())
}

fn an_atomic_touches_no_byte_beside_its_word<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for end in [&a, &b] {
        end.fill(0, &[0xee; 24])?;
    }
    a.fetch_add(1, 8, b.word(8)?, 1)?;
    bed.done(&a.sends, 1)?;
    for end in [&a, &b] {
        check_eq!(end.bytes(0..8)?, vec![0xee; 8], "bytes before the word");
        check_eq!(end.bytes(16..24)?, vec![0xee; 8], "bytes behind the word");
    }
    Ok(())
}

fn more_atomics_than_may_be_in_flight_wait_their_turn<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    for depth in [1, 2] {
        let mut setup = Setup::new(bed);
        (setup.depth, setup.serves) = (depth, depth);
        let Pair { a, b } = bed.pair_with(&setup)?;
        for i in 0..40u32 {
            a.fetch_add(u64::from(i), i * 8, b.word(1_024)?, 1)?;
        }
        for i in 0..40 {
            bed.done(&a.sends, i)?;
            check_eq!(a.mr.load(i as usize * 8)?, i, "old value {i} with {depth} in flight");
        }
    }
    Ok(())
}

/// A requester that was told wrong has more in flight than the responder keeps records of. Some responders refuse
/// what is too much, and some serve it and cannot answer it again; none does anything twice.
fn more_in_flight_than_the_peer_serves_is_never_done_twice<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const COUNT: u64 = 8;
    for (lost, reads) in [(0, false), (1, false), (0, true), (1, true)] {
        bed.world(2, lost)?;
        let depth = bed.ctx(0).device_attr().max_rd_atomic.min(8);
        let setup = Setup { depth, serves: 1, retry: retries(2), ..Setup::new(bed) };
        let Pair { a, b } = bed.pair_with(&setup)?;
        b.fill(8_192, &pattern(32_768, 9))?;
        if lost > 0 {
            let class = if reads { PacketClass::ReadResponse } else { PacketClass::AtomicResponse };
            bed.strike((1, 0), class, lost, Act::Drop)?;
        }
        for i in 0..COUNT {
            match reads {
                true => {
                    a.read(i, 8_192 + 4_096 * i as u32..12_288 + 4_096 * i as u32, b.remote(8_192..12_288)?)?
                }
                false => a.fetch_add(i, 8 * i as u32, b.word(1_024)?, 1)?,
            }
        }
        let seen = bed.completions(&a.sends, COUNT as usize)?;
        let good = seen.iter().take_while(|completion| completion.result.is_ok()).count() as u64;
        let failure = seen.get(good as usize).map(|completion| completion.result);
        check!(
            matches!(failure, None | Some(Err(WcError::RemInvReq | WcError::RetryExc))),
            "more requests than the peer serves failed with {failure:?}"
        );
        for i in 0..good {
            match reads {
                true => {
                    let at = 8_192 + 4_096 * i as usize;
                    check!(a.bytes(at..at + 4_096)? == pattern(32_768, 9)[..4_096], "what read {i} brought");
                }
                false => check_eq!(a.mr.load(8 * i as usize)?, i, "the value before addition {i}"),
            }
        }
        bed.settle();
        let word = b.mr.load(1_024)?;
        check!(
            reads || (good..=COUNT).contains(&word),
            "{good} additions were answered, and {word} executed"
        );
    }
    Ok(())
}

fn atomics_of_one_queue_pair_execute_in_order<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    let Pair { a, b } = bed.pair()?;
    for i in 0..50u64 {
        a.compare_swap(i, i as u32 * 8, b.word(1_024)?, i, i + 1)?;
    }
    for i in 0..50 {
        bed.done(&a.sends, i)?;
        check_eq!(a.mr.load(i as usize * 8)?, i, "old value {i}: each finds what the one before left");
    }
    check_eq!(b.mr.load(1_024)?, 50, "the word");
    Ok(())
}

/// How many nodes take part; the first is the words' home and takes part through its own adapter.
const NODES: usize = 4;

/// A connection from each node to the home (node 0), the home's own included, and a region of words there.
struct Crowd<V: Verbs> {
    pairs: Vec<Pair<V>>,
    words: V::Mr,
}

fn everyone<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome<Crowd<H::V>> {
    bed.world(NODES, 0)?;
    let setup = Setup::new(bed);
    let pd = bed.ctx(0).alloc_pd()?;
    let words = pd.alloc_mr(64, ALL_RIGHTS)?;
    let mut pairs = Vec::new();
    for node in 0..NODES {
        let a = bed.end(node, &setup)?;
        let (sends, recvs) = (bed.ctx(0).create_cq(8, None)?, bed.ctx(0).create_cq(8, None)?);
        let b = bed.end_on(0, pd.clone(), sends, recvs, &setup)?;
        a.connect(&b, &setup, 0)?;
        b.connect(&a, &setup, 1)?;
        pairs.push(Pair { a, b });
    }
    Ok(Crowd { pairs, words })
}

fn additions_of_many_nodes_are_each_counted_once<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const EACH: u32 = 50;
    let Crowd { pairs, words } = everyone(bed)?;
    let word = words.remote(0..8)?;
    for i in 0..EACH {
        for Pair { a, .. } in &pairs {
            a.fetch_add(u64::from(i), i * 8, word, 1)?;
        }
    }
    let mut seen = Vec::new();
    for Pair { a, .. } in &pairs {
        for i in 0..EACH {
            bed.done(&a.sends, u64::from(i))?;
            seen.push(a.mr.load(i as usize * 8)?);
        }
    }
    seen.sort_unstable();
    let all: Vec<u64> = (0..u64::from(EACH) * NODES as u64).collect();
    check!(seen == all, "old values are not each number once: {seen:?}");
    check_eq!(words.load(0)?, all.len() as u64, "the word");
    Ok(())
}

/// Each node guesses, swaps its guess for its successor, and learns from what it got: a lock's first move.
fn swaps_of_many_nodes_each_win_once<H: Harness>(bed: &mut TestBed<'_, H>) -> Outcome {
    const EACH: u64 = 20;
    let Crowd { pairs, words } = everyone(bed)?;
    let word = words.remote(0..8)?;
    let (mut guess, mut won) = ([0u64; NODES], [0u64; NODES]);
    let mut winners = Vec::new();
    while won.iter().any(|n| *n < EACH) {
        let playing: Vec<usize> = (0..NODES).filter(|n| won[*n] < EACH).collect();
        for node in &playing {
            pairs[*node].a.compare_swap(1, 0, word, guess[*node], guess[*node] + 1)?;
        }
        for node in playing {
            bed.done(&pairs[node].a.sends, 1)?;
            let was = pairs[node].a.mr.load(0)?;
            if was == guess[node] {
                winners.push(was);
                won[node] += 1;
                guess[node] = was + 1;
            } else {
                guess[node] = was;
            }
        }
        check!(winners.len() <= EACH as usize * NODES, "more wins than swaps: {winners:?}");
    }
    winners.sort_unstable();
    let all: Vec<u64> = (0..EACH * NODES as u64).collect();
    check!(winners == all, "values were not each won once: {winners:?}");
    check_eq!(words.load(0)?, all.len() as u64, "the word");
    Ok(())
}
