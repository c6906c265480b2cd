//! Reads structures only from JSON objects.
//!
//! In serde, a structure may also be a JSON array of its fields, and every structure has code to
//! read that. The server never writes arrays for structures. Without that code the page is a
//! thirtieth smaller. [`Objects`] wraps a deserializer, and those of all values inside, and asks
//! for a map wherever a structure is wanted.

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use std::fmt;

/// A deserializer that reads structures as maps.
struct Objects<D>(D);

/// Reads an answer.
///
/// # Errors
/// If it is not JSON, or not of this type.
pub fn read<T: DeserializeOwned>(json: &str) -> Result<T, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let value = T::deserialize(Objects(&mut reader))?;
    reader.end()?;
    Ok(value)
}

/// Wraps a visitor, or a part of one, so that it gets such deserializers.
struct Within<T>(T);

/// Methods that pass on a visitor for a value without parts.
macro_rules! plain {
    ($($method:ident)*) => {
        $(
            #[inline]
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
                self.0.$method(visitor)
            }
        )*
    };
}

/// Methods that pass on a visitor for a value that may have parts.
macro_rules! with_parts {
    ($($method:ident($($name:ident: $kind:ty),*))*) => {
        $(
            #[inline]
            fn $method<V: Visitor<'de>>(
                self,
                $($name: $kind,)*
                visitor: V,
            ) -> Result<V::Value, D::Error> {
                self.0.$method($($name,)* Within(visitor))
            }
        )*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Objects<D> {
    type Error = D::Error;

    plain! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32
        deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_unit deserialize_identifier deserialize_ignored_any
    }

    with_parts! {
        deserialize_any()
        deserialize_option()
        deserialize_newtype_struct(name: &'static str)
        deserialize_seq()
        deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_map()
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
    }

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, visitor)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Within(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

/// Methods that pass on a value without parts.
macro_rules! handed_on {
    ($($method:ident: $kind:ty),*) => {
        $(
            #[inline]
            fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
                self.0.$method(value)
            }
        )*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Within<V> {
    type Value = V::Value;

    // The same for all, so that the names of all structures need not be loaded.
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another kind of value")
    }

    handed_on! {
        visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str,
        visit_borrowed_str: &'de str, visit_string: String
    }

    #[inline]
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, some: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Objects(some))
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, within: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Objects(within))
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Within(items))
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Within(entries))
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Within(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Within<S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Objects(value))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Within<A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Within(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Within<A> {
    type Error = A::Error;

    // Keys have no parts.
    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Within(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Within<A> {
    type Error = A::Error;
    type Variant = Within<A::Variant>;

    #[inline]
    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Within<A::Variant>), A::Error> {
        let (name, content) = self.0.variant_seed(seed)?;
        Ok((name, Within(content)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Within<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    #[inline]
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Within(seed))
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, Within(visitor))
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.newtype_variant_seed(Fields(visitor))
    }
}

/// The fields of a variant: a map.
struct Fields<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Fields<V> {
    type Value = V::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        value.deserialize_map(Within(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        n: u64,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Newtype(Inner);

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Variant {
        Unit,
        One(Inner),
        Two(u8, Inner),
        Named { inner: Inner },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Tagged {
        Some { inner: Inner },
        None,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Flat {
        #[serde(flatten)]
        inner: Inner,
        text: String,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct All {
        inner: Inner,
        option: Option<Inner>,
        list: Vec<Inner>,
        pair: (Inner, f64),
        map: BTreeMap<String, Inner>,
        newtype: Newtype,
        variants: Vec<Variant>,
        tagged: Vec<Tagged>,
        flat: Flat,
        #[serde(default)]
        missing: Option<bool>,
    }

    #[test]
    fn what_is_read_is_what_is_read_without() {
        let json = r#"{"inner":{"n":1,"unknown":[{"n":[]}]},"option":{"n":2},"list":[{"n":3}],
            "pair":[{"n":4},0.5],"map":{"a b":{"n":5}},"newtype":{"n":6},
            "variants":["unit",{"one":{"n":7}},{"two":[8,{"n":9}]},{"named":{"inner":{"n":10}}}],
            "tagged":[{"kind":"some","inner":{"n":11}},{"kind":"none"}],
            "flat":{"n":12,"text":"ü"}}"#;
        let plain: All = serde_json::from_str(json).unwrap();
        assert_eq!(read::<All>(json).unwrap(), plain);
        assert_eq!(read::<Option<Inner>>("null").unwrap(), None);
    }

    #[test]
    fn a_structure_is_no_array() {
        fn refused<T: DeserializeOwned + Debug>(json: &str) {
            serde_json::from_str::<T>(json).unwrap();
            let error = read::<T>(json).unwrap_err().to_string();
            assert!(error.contains("invalid type: sequence"), "{error}");
        }
        refused::<Inner>("[1]");
        refused::<Vec<Inner>>("[[1]]");
        refused::<Variant>(r#"{"named":[{"n":1}]}"#);
    }
}
