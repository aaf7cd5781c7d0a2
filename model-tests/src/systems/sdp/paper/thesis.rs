//! The thesis's lines of netperf (chapter 6), and its figures of TCP over IPoIB (chapter 7).

use super::flow::Mode;

/// A line of netperf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Where it stands.
    pub figure: &'static str,
    /// The message's size.
    pub size: &'static str,
    pub bytes: u32,
    pub mode: Mode,
    /// Megabits a second.
    pub rate: f64,
    /// Percent of 16 cores, at the sender and at the receiver.
    pub percent: [f64; 2],
    /// Another line says otherwise.
    pub contradicted: bool,
}

const OFF: &str = "No ZCopy";
const KIB_64: &str = "Threshold 64 KiB";
const MIB: &str = "Threshold 1 MiB";
const MIB_10: &str = "Threshold 10 MiB";

/// The tables in their order.
pub(super) const FIGURES: [(&str, &str); 4] = [
    (OFF, "Chapter 6.1: without ZCopy"),
    (KIB_64, "Chapter 6.2: ZCopy beyond 64 KiB"),
    (MIB, "Chapter 6.3: ZCopy beyond 1 MiB"),
    (MIB_10, "Chapter 6.4: ZCopy beyond 10 MiB"),
];

const KIB: u32 = 1 << 10;

const fn line(
    figure: &'static str,
    (size, bytes): (&'static str, u32),
    mode: Mode,
    rate: f64,
    percent: [f64; 2],
) -> Line {
    Line { figure, size, bytes, mode, rate, percent, contradicted: false }
}

/// A line that others contradict.
const fn odd(line: Line) -> Line {
    Line { contradicted: true, ..line }
}

const B: Mode = Mode::BCopy;
const Z: Mode = Mode::ZCopy;
const K1: (&str, u32) = ("1 KiB", KIB);
const K8: (&str, u32) = ("8 KiB", 8 * KIB);
const K64: (&str, u32) = ("64 KiB", 64 * KIB);
const K128: (&str, u32) = ("128 KiB", 128 * KIB);
const M1: (&str, u32) = ("1 MiB", KIB * KIB);
const M10: (&str, u32) = ("10 MiB", 10 * KIB * KIB);
const M100: (&str, u32) = ("100 MiB", 100 * KIB * KIB);
const M1000: (&str, u32) = ("1,000 MiB", 1_000 * KIB * KIB);
const G2: (&str, u32) = ("2.05 GB", 2_048_576_000);

/// All of them. Messages of 1,000 MiB and more went by BCopy whatever the threshold was: that shows by their figures.
pub(super) const LINES: [Line; 29] = [
    line(OFF, K1, B, 2_000.35, [12.48, 7.08]),
    line(OFF, K8, B, 9_176.81, [12.50, 6.26]),
    line(OFF, K64, B, 10_133.04, [8.18, 6.63]),
    line(OFF, M1, B, 9_926.18, [6.75, 6.86]),
    line(OFF, M10, B, 10_101.18, [6.51, 6.33]),
    line(OFF, M100, B, 10_097.56, [6.46, 6.29]),
    line(KIB_64, K1, B, 1_883.85, [12.52, 6.24]),
    line(KIB_64, K8, B, 9_104.75, [12.49, 6.26]),
    line(KIB_64, K64, B, 10_131.13, [8.39, 7.03]),
    odd(line(KIB_64, K128, Z, 4_901.58, [2.77, 7.02])),
    line(KIB_64, M1, Z, 6_411.63, [1.98, 1.32]),
    odd(line(KIB_64, M10, Z, 6_725.33, [1.65, 1.16])),
    line(KIB_64, M100, Z, 6_677.41, [1.54, 1.44]),
    line(KIB_64, M1000, B, 9_676.80, [5.90, 5.69]),
    line(KIB_64, G2, B, 9_602.05, [5.86, 5.58]),
    odd(line(MIB, K8, B, 7_907.50, [13.71, 6.47])),
    line(MIB, K64, B, 10_129.16, [8.25, 6.36]),
    line(MIB, M1, B, 9_927.18, [6.72, 6.29]),
    odd(line(MIB, M10, Z, 6_519.21, [1.65, 1.75])),
    line(MIB, M100, Z, 6_690.25, [1.60, 1.21]),
    line(MIB, M1000, B, 9_586.22, [5.90, 5.63]),
    line(MIB, G2, B, 9_545.88, [5.88, 6.02]),
    line(MIB_10, K64, B, 9_939.40, [8.31, 6.31]),
    line(MIB_10, M1, B, 9_928.36, [6.72, 6.75]),
    odd(line(MIB_10, M10, Z, 6_585.33, [1.67, 1.37])),
    line(MIB_10, M100, Z, 6_598.41, [1.50, 1.29]),
    line(MIB_10, M1000, B, 9_320.61, [5.88, 5.98]),
    line(MIB_10, G2, B, 9_210.10, [5.84, 6.36]),
    line("Chapter 7", ("4 MiB", 4 * KIB * KIB), Z, 7_112.0, [f64::NAN, f64::NAN]),
];

/// What the thesis lost by bonding (its Table 1): Mb/s without and with it, at messages of so many bytes.
pub(super) const BONDING: [((&str, u32), [f64; 2]); 5] = [
    (K8, [10_107.0, 6_678.0]),
    (K64, [10_133.0, 6_703.0]),
    (M1, [9_926.0, 9_923.0]),
    (M10, [10_101.0, 10_053.0]),
    (M100, [10_097.0, 10_068.0]),
];

/// The least message of which the thesis has a figure of TCP over IPoIB.
pub(super) const IPOIB_FROM: u32 = 8 * KIB;

/// TCP over IPoIB (chapter 7): bytes of a message, Mb/s, and what the thesis calls a latency, which is netperf's processor
/// time in microseconds for a KB.
const IPOIB: [(f64, f64, f64); 4] = [
    (IPOIB_FROM as f64, 1_206.0, 4.1),
    (65_536.0, 897.0, 6.3),
    (4_194_304.0, 2_223.0, 4.0),
    (1_048_576_000.0, 2_622.0, 2.7),
];

/// The cost model of TCP over IPoIB: the thesis's four points, and between them by the logarithm of the size; before the first
/// of them a call takes what it takes there. It is calibrated to the thesis and says nothing of its own.
pub(super) fn ipoib(bytes: u32) -> (f64, f64) {
    let bytes = f64::from(bytes);
    let [first, .., last] = IPOIB;
    if bytes < first.0 {
        let share = bytes / first.0;
        return (first.1 * share, first.2 / share);
    }
    let Some((from, to)) = IPOIB.iter().zip(&IPOIB[1..]).find(|(_, to)| bytes < to.0) else {
        return (last.1, last.2);
    };
    let share = (bytes / from.0).ln() / (to.0 / from.0).ln();
    (from.1 + share * (to.1 - from.1), from.2 + share * (to.2 - from.2))
}
