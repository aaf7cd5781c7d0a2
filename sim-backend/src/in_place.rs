//! Copies that keep the memory of what they replace.

/// `Clone` for a structure whose `clone_from` goes field by field, so that a state that is put back again and again
/// (by an explorer, tens of thousands of times a second) allocates nothing. What `#[derive(Clone)]` makes does not.
macro_rules! clone_in_place {
    ($($name:ident $(<$param:ident>)? { $($field:ident),* $(,)? })*) => {$(
        impl $(<$param: Clone>)? Clone for $name $(<$param>)? {
            fn clone(&self) -> Self {
                $name { $($field: self.$field.clone()),* }
            }
            fn clone_from(&mut self, from: &Self) {
                $(self.$field.clone_from(&from.$field);)*
            }
        }
    )*};
}
pub(crate) use clone_in_place;
