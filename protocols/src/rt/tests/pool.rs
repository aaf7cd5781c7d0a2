//! Blocks of registered memory, guarded and given back.

use super::*;

#[test]
fn blocks_do_not_overlap_and_are_used_again() {
    let fake = Fake::default();
    let pool = BufferPool::<V>::new(&fake, 12, 3, AccessFlags::LOCAL_WRITE);
    assert_eq!(pool.block_len(), 16, "whole words");
    let blocks: Vec<_> = (0..3).map(|_| pool.alloc().expect("room")).collect();
    assert!(blocks.iter().all(|block| block.len() == 16 && !block.is_empty()));
    let none = pool.alloc().err();
    assert_eq!(none, Some(VerbsError::Exhausted { what: "buffer", limit: 3 }));
    for (i, block) in blocks.iter().enumerate() {
        block.write(0, &[i as u8 + 1; 16]).expect("in bounds");
    }
    for (i, block) in blocks.iter().enumerate() {
        assert_eq!(block.word(), Ok(u64::from_ne_bytes([i as u8 + 1; 8])));
        let mut out = [0; 4];
        block.read(12, &mut out).expect("in bounds");
        assert_eq!(out, [i as u8 + 1; 4]);
        assert!(block.read(13, &mut out).is_err() && block.write(13, &out).is_err());
    }
    let shared = blocks[1].clone();
    drop(blocks);
    assert_eq!(pool.in_use(), 1, "a clone shares the guard");
    drop(shared);
    assert_eq!(pool.in_use(), 0);
    assert!(pool.alloc().is_ok());
    assert_eq!(fake.world.borrow().regions, 1);
}

#[test]
fn a_pool_registers_more_when_it_runs_out() {
    let fake = Fake::default();
    let pool = BufferPool::<V>::new(&fake, 8 * 1024, u32::MAX, AccessFlags::LOCAL_WRITE);
    let blocks: Vec<_> = (0..9).map(|_| pool.alloc().expect("room")).collect();
    assert!(fake.world.borrow().regions > 1);
    for (i, block) in blocks.iter().enumerate() {
        block.write(0, &(i as u64).to_ne_bytes()).expect("in bounds");
    }
    assert!(blocks.iter().enumerate().all(|(i, b)| b.word() == Ok(i as u64)));
}

#[test]
fn blocks_that_were_reserved_need_no_registration() {
    let fake = Fake::default();
    let pool = BufferPool::<V>::new(&fake, 8 * 1024, 9, AccessFlags::LOCAL_WRITE);
    pool.reserve(5).expect("room");
    let regions = fake.world.borrow().regions;
    let blocks: Vec<_> = (0..5).map(|_| pool.alloc().expect("room")).collect();
    pool.reserve(5).expect("guarded ones count");
    assert_eq!(fake.world.borrow().regions, regions);
    // Never more than its bound.
    pool.reserve(100).expect("all that it may have");
    drop(blocks);
    let all: Vec<_> = std::iter::from_fn(|| pool.alloc().ok()).collect();
    assert_eq!(all.len(), 9);
}

#[test]
fn a_pool_that_grows_a_thousandfold_registers_a_few_dozen_times_and_a_quarter_too_much_at_most() {
    let fake = Fake::default();
    let pool = BufferPool::<V>::new(&fake, 8 * 1024, u32::MAX, AccessFlags::LOCAL_WRITE);
    let mut blocks: Vec<_> = (0..2_000).map(|_| pool.alloc().expect("room")).collect();
    assert!(fake.world.borrow().regions < 40, "{}", fake.world.borrow().regions);
    let regions = fake.world.borrow().regions;
    blocks.extend((0..501).map(|_| pool.alloc().expect("room")));
    assert!(fake.world.borrow().regions > regions, "what is there was used up");
    for (i, block) in blocks.iter().enumerate() {
        block.write(0, &(i as u64).to_ne_bytes()).expect("in bounds");
    }
    assert!(blocks.iter().enumerate().all(|(i, b)| b.word() == Ok(i as u64)), "no two are one");
}

#[test]
fn a_pool_for_whose_growth_there_is_no_memory_takes_what_little_there_is() {
    let fake = Fake::default();
    let pool = BufferPool::<V>::new(&fake, 8 * 1024, u32::MAX, AccessFlags::LOCAL_WRITE);
    let mut blocks: Vec<_> = (0..40).map(|_| pool.alloc().expect("room")).collect();
    fake.world.borrow_mut().longest_region = Some(16 * 1024);
    blocks.extend((0..40).map(|_| pool.alloc().expect("there is as much as a pool begins with")));
    for (i, block) in blocks.iter().enumerate() {
        block.write(0, &(i as u64).to_ne_bytes()).expect("in bounds");
    }
    assert!(blocks.iter().enumerate().all(|(i, b)| b.word() == Ok(i as u64)), "no two are one");
    fake.world.borrow_mut().longest_region = Some(0);
    let refused =
        std::iter::from_fn(|| Some(pool.alloc())).find_map(|made| made.map(|block| blocks.push(block)).err());
    assert_eq!(refused, Some(VerbsError::Exhausted { what: "memory", limit: 0 }));
}
