//! Reading that never fails because of what a value is.
//!
//! One object that cannot be decoded would fail its whole page of a list, or its watch, for ever. So every value is asked for its own type:
//! what fits is read, what does not fit is skipped and counted, and the rest of the object is still read. Nothing is buffered on the way.
//! Only text that is no JSON or no YAML at all is an error.

use std::{cell::Cell, fmt, marker::PhantomData};

use jiff::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Counts what did not fit.
pub type Malformed = Cell<u32>;

/// A type that can be read from any value. Its methods say which shapes of a value fit, and return `None` for one that fits in shape only (such
/// as a text that is no time). No method means that no value of that shape fits. `null` is no value: the default, and not counted.
pub trait Lenient: Default {
    /// Reads a text.
    fn from_text(_text: &str) -> Option<Self> {
        None
    }

    /// Reads a whole number.
    fn from_integer(_number: i64) -> Option<Self> {
        None
    }

    /// Reads a truth value.
    fn from_truth(_truth: bool) -> Option<Self> {
        None
    }

    /// Reads a list, to its end.
    ///
    /// # Errors
    ///
    /// The input is broken.
    fn from_list<'de, A: SeqAccess<'de>>(
        mut list: A,
        _malformed: &Malformed,
    ) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    /// Reads an object, to its end.
    ///
    /// # Errors
    ///
    /// The input is broken.
    fn from_object<'de, A: MapAccess<'de>>(
        mut object: A,
        _malformed: &Malformed,
    ) -> Result<Option<Self>, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// Reads any value as a `T`, and says how much of it did not fit.
///
/// # Errors
///
/// The input is broken: no JSON, or no YAML.
pub fn read<'de, T: Lenient, D: Deserializer<'de>>(deserializer: D) -> Result<(T, u32), D::Error> {
    let malformed = Malformed::new(0);
    let value = Reader::new(&malformed).deserialize(deserializer)?;
    Ok((value.unwrap_or_default(), malformed.get()))
}

/// Reads one value. `None` if there is none, or none that fits.
pub struct Reader<'a, T> {
    malformed: &'a Malformed,
    target: PhantomData<T>,
}

impl<'a, T: Lenient> Reader<'a, T> {
    /// A reader that counts into `malformed`.
    pub const fn new(malformed: &'a Malformed) -> Self {
        Self {
            malformed,
            target: PhantomData,
        }
    }

    /// Counts what did not fit.
    fn fit(&self, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.malformed.set(self.malformed.get().saturating_add(1));
        }
        value
    }
}

impl<'de, T: Lenient> DeserializeSeed<'de> for Reader<'_, T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Every shape that JSON and YAML have.
impl<'de, T: Lenient> Visitor<'de> for Reader<'_, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(self.fit(T::from_text(text)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(self.fit(T::from_integer(number)))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(self.fit(i64::try_from(number).ok().and_then(T::from_integer)))
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Self::Value, E> {
        Ok(self.fit(T::from_truth(truth)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Ok(self.fit(T::from_list(list, self.malformed)?))
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        Ok(self.fit(T::from_object(object, self.malformed)?))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    /// No whole number, or one beyond 64 bits.
    fn visit_f64<E: Error>(self, _number: f64) -> Result<Self::Value, E> {
        Ok(self.fit(None))
    }
}

/// Defines trimmed types: the fields that something reads, each with its name in JSON, all of them [`Lenient`].
///
/// A field without such a name is filled from a value that is not kept: `"name" => |this, value: Type| { ... }`, with `<= { ... }`, which makes that value
/// anew from `this` when it is written.
///
/// Names are case-sensitive, as Kubernetes'. A name that occurs twice counts as its last.
macro_rules! trimmed {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $(
                $(#[$field_attribute:meta])*
                $field_visibility:vis $field:ident: $type:ty $(= $json:literal)?
            ),+ $(,)?
        }
        $($source:literal => |$this:ident, $value:ident: $value_type:ty| $fill:block <= $back:block)*
    )+) => {$(
        $(#[$attribute])*
        #[derive(Debug, Clone, Default)]
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $type,)+
        }

        /// Never fails because of what a value is. For the count of what did not fit, see `Wire`.
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok($crate::cluster::lenient::read(deserializer)?.0)
            }
        }

        impl $crate::cluster::lenient::Lenient for $name {
            fn from_object<'de, A: serde::de::MapAccess<'de>>(
                mut object: A,
                malformed: &$crate::cluster::lenient::Malformed,
            ) -> Result<Option<Self>, A::Error> {
                use $crate::cluster::lenient::{Lenient, Malformed, Reader};

                /// The names of interest.
                #[derive(Default)]
                #[allow(non_camel_case_types, reason = "named as the fields are")]
                enum Key {
                    #[default]
                    __Other,
                    $($(#[doc = $json] $field,)?)+
                    $(#[doc = $source] $value,)*
                }

                impl Lenient for Key {
                    fn from_text(name: &str) -> Option<Self> {
                        Some(match name {
                            $($($json => Self::$field,)?)+
                            $($source => Self::$value,)*
                            _ => Self::__Other,
                        })
                    }
                }

                let mut this = Self::default();
                // A key that is no text (YAML has them) is of no interest, and harmless.
                let keys = Malformed::new(0);
                while let Some(key) = object.next_key_seed(Reader::<Key>::new(&keys))? {
                    match key.unwrap_or_default() {
                        $($(Key::$field => {
                            // Only says that the field has a name.
                            let _: &str = $json;
                            this.$field = object.next_value_seed(Reader::new(malformed))?.unwrap_or_default();
                        })?)+
                        $(Key::$value => {
                            let $value = object
                                .next_value_seed(Reader::<$value_type>::new(malformed))?
                                .unwrap_or_default();
                            let $this = &mut this;
                            $fill
                        })*
                        Key::__Other => {
                            object.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(Some(this))
            }
        }

        /// As Kubernetes writes it, but only what is read of it. See [`Sparse`]($crate::cluster::sparse::Sparse).
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                use $crate::cluster::sparse::Sparse;

                let mut object = serializer.serialize_map(None)?;
                $($(
                    if !Sparse::is_absent(&self.$field) {
                        object.serialize_entry($json, &self.$field)?;
                    }
                )?)+
                $({
                    let $this = self;
                    let value: $value_type = $back;
                    if !Sparse::is_absent(&value) {
                        object.serialize_entry($source, &value)?;
                    }
                })*
                object.end()
            }
        }

        impl $crate::cluster::sparse::Sparse for $name {
            fn is_absent(&self) -> bool {
                use $crate::cluster::sparse::Sparse;

                $($(
                    // Only says that the field has a name.
                    let _: &str = $json;
                    if !Sparse::is_absent(&self.$field) {
                        return false;
                    }
                )?)+
                $({
                    let $this = self;
                    let value: $value_type = $back;
                    if !Sparse::is_absent(&value) {
                        return false;
                    }
                })*
                true
            }
        }
    )+};
}

pub(crate) use trimmed;

// === Leaves ===

impl Lenient for Box<str> {
    fn from_text(text: &str) -> Option<Self> {
        Some(text.into())
    }
}

impl Lenient for bool {
    fn from_truth(truth: bool) -> Option<Self> {
        Some(truth)
    }
}

impl Lenient for i32 {
    fn from_integer(number: i64) -> Option<Self> {
        number.try_into().ok()
    }
}

impl Lenient for i64 {
    fn from_integer(number: i64) -> Option<Self> {
        Some(number)
    }
}

impl<T: Lenient> Lenient for Option<T> {
    fn from_text(text: &str) -> Option<Self> {
        T::from_text(text).map(Some)
    }

    fn from_integer(number: i64) -> Option<Self> {
        T::from_integer(number).map(Some)
    }

    fn from_truth(truth: bool) -> Option<Self> {
        T::from_truth(truth).map(Some)
    }

    fn from_list<'de, A: SeqAccess<'de>>(
        list: A,
        malformed: &Malformed,
    ) -> Result<Option<Self>, A::Error> {
        Ok(T::from_list(list, malformed)?.map(Some))
    }

    fn from_object<'de, A: MapAccess<'de>>(
        object: A,
        malformed: &Malformed,
    ) -> Result<Option<Self>, A::Error> {
        Ok(T::from_object(object, malformed)?.map(Some))
    }
}

impl Lenient for Timestamp {
    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// The items that fit; the others are left out, and counted.
impl<T: Lenient> Lenient for Vec<T> {
    fn from_list<'de, A: SeqAccess<'de>>(
        mut list: A,
        malformed: &Malformed,
    ) -> Result<Option<Self>, A::Error> {
        let mut items = Self::new();
        while let Some(item) = list.next_element_seed(Reader::new(malformed))? {
            items.extend(item);
        }
        Ok(Some(items))
    }
}
