//! What to know beside the figures.

use crate::paper::Note;

/// All of them, in the paper's order.
pub(super) fn notes() -> [Note; 4] {
    [
        Note {
            figure: "Table 2",
            text: "Goes into the profile, and is measured again: an RDMA write until a processor that polls its target sees it, a \
                   read until its data are there, half of a message's way there and back, the contract's byte streams for \
                   TCP. The bandwidth of queued messages comes out: nothing in the profile stands for a QDMA's own.",
        },
        Note {
            figure: "Figure 8",
            text: "The paper's figures 8 and 9 have no values in its text. It says that reads gain more than 140 % by Elan4, \
                   and not with how many servers and clients; here four of each. Objects lie in the page cache. PVFS2's own work \
                   for a request and a fragment is not in the profile, so that what is limited by it comes out too fast.",
        },
        Note {
            figure: "Figure 9",
            text: "Writes into memory (7.2: ramfs) gain up to 82 %. Here they go into the page cache and are not synced.",
        },
        Note {
            figure: "Table 3",
            text: "Not measured yet: creation and resize need the metadata's log, and PVFS2's steps. Tables 4 and figure 10 need \
                   lists.",
        },
    ]
}
