//! The list of all cases by name, for runners that want one test a case.

/// Calls a macro with every case: `group { case case ... } group { ... } ...`.
///
/// ```ignore
/// macro_rules! tests {
///     ($($group:ident { $($case:ident)* })*) => {
///         $(mod $group { $(#[test] fn $case() { super::check(stringify!($group), stringify!($case)) })* })*
///     };
/// }
/// verbs_trait::conformance_cases!(tests);
/// ```
#[macro_export]
macro_rules! conformance_cases {
    ($callback:ident) => {
        $callback! {}
    };
}
