//! What to know beside the figures.

use crate::paper::Note;

/// All of them, in the paper's order.
pub(super) fn notes() -> [Note; 11] {
    [
        Note {
            figure: "Figure 4(a)",
            text: "Null and write at one byte are what the two constants were fitted to, and say nothing. Version, delta and \
                   strict come out. The 4 us by which delta is above version are not explained by what section 5.3 says \
                   of it; its deviation is near the bound. Read is not judged: with 5.3's lock it takes what write takes, \
                   and 23 us are less than a write and one atomic. By section 4 read excludes readers, so that only gets \
                   lock, as only puts do under write; that reading is nearer the paper's 23 us.",
        },
        Note {
            figure: "Figure 4(b)",
            text: "The paper's text gives no values of this figure. It says that a get under version does not grow with the \
                   segment where the version is the one held.",
        },
        Note {
            figure: "Ours, get",
            text: "The paper has no such figure. A value is published by one compare-and-swap; no model here holds a lock \
                   over a transfer.",
        },
        Note {
            figure: "Table 2",
            text: "Overheads are inputs of the profile, measured here to check that they come back. A synchronization of 20 us \
                   contradicts Figure 4(a): strict and write take 54.3 us and null 20, so that a lock's two atomics are \
                   17.15 us each. The fabric keeps to Figure 4(a).",
        },
        Note {
            figure: "Figure 6(b)",
            text: "The paper's text gives no values and no number of clients; 11 nodes call and the twelfth is the home. It \
                   says that strict and write degrade beyond 40 % of puts. Here write does so from the first puts on, and \
                   strict is slow at any share, since its gets hold the lock, too (sections 4 and 5.3). Atomics of one \
                   adapter are executed one after another, and those who wait for a lock swap all the time.",
        },
        Note {
            figure: "Figure 7",
            text: "The paper's text gives no values, and says that asynchronous calls take away most of the overhead of \
                   large transfers. Rows of 16 transfers; the asynchronous ones are waited for by one call.",
        },
        Note {
            figure: "Figure 8(a)",
            text: "The steps of a reconfiguration stand in the paper's references. Here: look at the load, lock the loaded and the \
                   free server, look whether that is still free, tell both, tell everybody by a map with a version, \
                   unlock both; nine calls of the direct scheme.",
        },
        Note {
            figure: "Figure 8(b)",
            text: "The paper measured this on Ammasso and gives no values: the one-sided check is flat, and the two-sided one by \
                   TCP grows. Here the two messages are the transport's, and each thread computes for 20 us at a time.",
        },
        Note {
            figure: "Figure 9(a)",
            text: "The paper gives 19 % for 1K, 10K and 100K records and says nothing of what a record is. Here it has 64 bytes, and comes \
                   250 at a time: without the substrate from a disk of 60 MB/s in messages, with it from another node's memory. \
                   What a record takes to be processed is fitted at 10K. Everything grows with the records alone, so \
                   that the other sizes say little more than that nothing else does.",
        },
        Note {
            figure: "Ours, staleness",
            text: "The paper has no such figure. One node puts every 100 us on average, and eight get at the same pace with the version \
                   that they had; counted are the puts that had completed when a get returned and that it does not have, 8 for 8 and more. \
                   Write and version \
                   are behind by what completed while the answer was on its way.",
        },
        Note {
            figure: "Figure 9(b)",
            text: "The paper does not say how large a checkpoint is. Here it is 64 KiB under strict and its number under version, \
                   through the daemon; a restart asks each process for its number and reads the own state back, and grows with \
                   the processes, as in the paper.",
        },
    ]
}
