//! What serde asks of a reader: each shape of a value, by the kind of text that it is written as.

use super::Misread;
use super::reader::{Number, Reader};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// Methods for values of one kind that are read in one way.
macro_rules! alike {
    ($to:ident: $($method:ident($($kind:ty),*))*) => {
        $(
            #[inline]
            fn $method<V: Visitor<'de>>(
                self,
                $(_: $kind,)*
                visitor: V,
            ) -> Result<V::Value, Misread> {
                self.$to(visitor)
            }
        )*
    };
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Misread;

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        visitor.visit_bool(self.bool()?)
    }

    alike! {
        number_of:
        deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64()
        deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64()
        deserialize_f32() deserialize_f64()
    }

    alike! {
        text_of:
        deserialize_char() deserialize_str() deserialize_string() deserialize_identifier()
        deserialize_bytes() deserialize_byte_buf()
    }

    alike! {
        list_of:
        deserialize_seq() deserialize_tuple(usize) deserialize_tuple_struct(&'static str, usize)
    }

    alike! {
        object_of:
        deserialize_map() deserialize_struct(&'static str, &'static [&'static str])
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        match self.peek() {
            b'"' => self.text_of(visitor),
            b'[' => self.list_of(visitor),
            b'{' => self.object_of(visitor),
            b'n' => self.deserialize_unit(visitor),
            b't' | b'f' => self.deserialize_bool(visitor),
            _ => self.number_of(visitor),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        if self.word("null") {
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    #[inline]
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        self.null()?;
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misread> {
        self.deserialize_unit(visitor)
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        self.skip()?;
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misread> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misread> {
        let has_content = self.peek() == b'{';
        if has_content {
            self.open(b'{')?;
        }
        let value = visitor.visit_enum(&mut *self)?;
        if has_content {
            self.close(b'}')?;
        }
        Ok(value)
    }
}

/// Each kind of value once, for every method that asks for it.
impl<'de> Reader<'de> {
    fn number_of<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Misread> {
        match self.number()? {
            Number::Natural(number) => visitor.visit_u64(number),
            Number::Negative(number) => visitor.visit_i64(number),
            Number::Float(number) => visitor.visit_f64(number),
        }
    }

    fn text_of<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Misread> {
        visitor.visit_str(&self.text()?)
    }

    fn list_of<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Misread> {
        self.open(b'[')?;
        let value = visitor.visit_seq(&mut *self)?;
        self.close(b']')?;
        Ok(value)
    }

    fn object_of<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Misread> {
        self.open(b'{')?;
        let value = visitor.visit_map(&mut *self)?;
        self.close(b'}')?;
        Ok(value)
    }
}

impl<'de> SeqAccess<'de> for &mut Reader<'de> {
    type Error = Misread;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Misread> {
        if !self.part(b']')? {
            return Ok(None);
        }
        seed.deserialize(&mut **self).map(Some)
    }
}

impl<'de> MapAccess<'de> for &mut Reader<'de> {
    type Error = Misread;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Misread> {
        if !self.entry()? {
            return Ok(None);
        }
        seed.deserialize(&mut **self).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Misread> {
        self.expect(b':')?;
        seed.deserialize(&mut **self)
    }
}

impl<'de> EnumAccess<'de> for &mut Reader<'de> {
    type Error = Misread;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Misread> {
        Ok((seed.deserialize(&mut *self)?, self))
    }
}

/// After the name of a variant: a colon and the content, if it has one.
impl<'de> VariantAccess<'de> for &mut Reader<'de> {
    type Error = Misread;

    fn unit_variant(self) -> Result<(), Misread> {
        match self.eats(b':') {
            true => self.null(),
            false => Ok(()),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Misread> {
        self.expect(b':')?;
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Misread> {
        self.expect(b':')?;
        self.list_of(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misread> {
        self.expect(b':')?;
        self.object_of(visitor)
    }
}
