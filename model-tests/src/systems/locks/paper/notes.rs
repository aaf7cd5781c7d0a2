//! What to know beside the figures.

use crate::paper::Note;

/// All of them, in the paper's order.
pub(super) fn notes() -> [Note; 6] {
    [
        Note {
            figure: "Section 4.1, IPC",
            text: "These are the inputs, measured here to check that the fabric gives back what went into its profile. \
                   Of the systems' figures one for each wake-up style was used: a daemon's bookkeeping is such that \
                   N-CoSED's basic latency is met. All other figures are outputs.",
        },
        Note {
            figure: "Figure 5(a)",
            text: "N-CoSED's exclusive latency here and in Figure 5(b) is what bookkeeping was fitted to, and says \
                   nothing. DQNL and the shared mode take the same way.",
        },
        Note {
            figure: "Figure 5(b)",
            text: "By Table 2 SRSL takes two messages and two IPC messages. With notification the paper's own \
                   primitives make that 28.16 us, which is 0.79 us more than the paper measured and has no bookkeeping \
                   in it: no sum of the inputs meets SRSL's figure.",
        },
        Note {
            figure: "Figure 6",
            text: "The paper's text does not give the values of these bars. Beside our parts stand the network \
                   operations of Table 2 by the latencies of Table 1, and what is left of Figure 5.",
        },
        Note {
            figure: "Figure 7(a)",
            text: "The paper's text says that DQNL is 317 % (the abstract: with 16 nodes) and SRSL 25 % above N-CoSED, \
                   but neither in which wake-up style, nor of which time, nor whether with IPC, which section 4.1 \
                   proposes to leave out; so every reading is shown. Nodes share no clock: a time that begins at one \
                   and ends at another is measured by one clock only with a message back. That is the reading that \
                   comes first. It was preferred after the measurement, because it agrees with both percentages; \
                   nothing was fitted to it. By the last grant alone DQNL is too far above N-CoSED, which is too \
                   quick: an adapter sends a message every 0.6 us, an estimate of the profile (0.66 us would meet the \
                   bound, 0.8 us the figure). By the mean SRSL is too far above.",
        },
        Note {
            figure: "Figure 7(b)",
            text: "Times of a cascade begin with the holder's call of unlock; a grant is the return of a waiter's call \
                   of lock. There are 32 nodes: the holder, the lock's home, and 30 others of which the first so many \
                   wait.",
        },
    ]
}
