//! What services count, as plain numbers that travel and add up over nodes.

/// A struct of numbers that are fields of a service's own statistics, by the same names.
macro_rules! counted {
    ($(#[$about:meta])* $name:ident from $stats:ty { $($(#[$says:meta])* $seen:vis $field:ident),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $($(#[$says])* $seen $field: u64,)*
        }

        impl From<$stats> for $name {
            fn from(stats: $stats) -> $name {
                $name { $($field: stats.$field),* }
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

pub(crate) use counted;
