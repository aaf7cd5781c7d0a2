//! A list of worlds, a line each.

use crate::explore::{Size, SizeError};

/// Lists worlds of models whose sizes have these keys. A line has the world's name, the function that makes its model of a size
/// and of what is in brackets, what must come of it, and what it is.
macro_rules! worlds {
    ($keys:expr; $($name:literal $($make:ident)::+ ($($of:expr),* $(,)?) $expected:ident, $about:literal;)*) => {
        vec![$($crate::explore::Entry {
            name: $name,
            about: $about,
            expected: $crate::explore::Expected::$expected,
            keys: $keys,
            make: |size| {
                let expected = $crate::explore::Expected::$expected;
                Ok($crate::harness::Harness::boxed($name, expected, $($make)::+(size, $($of),*)?))
            },
        }),*]
    };
}

pub(crate) use worlds;

/// A model that has one size.
///
/// # Errors
///
/// None: a size with a key was refused before.
pub(crate) fn of_one_size<M>(_: &Size, model: M) -> Result<M, SizeError> {
    Ok(model)
}
