//! Rules for types, as parameters and attributes have them.

use super::lexer::{Parsed, TokenKind};
use super::parse::Parser;
use crate::syntax::types::{Type, generic, named};

impl Parser<'_> {
    /// `Optional[Dict[str, __torch__.models.Pair]]`
    pub(crate) fn whole_type(&mut self) -> Parsed<Type> {
        let start = self.token;
        let mut name = self.word()?.to_owned();
        while self.takes(b'.')? {
            name.push('.');
            name.push_str(self.word()?);
        }
        if self.token.kind != TokenKind::Mark(b'[') {
            return Ok(named(&name));
        }
        self.deeper()?;
        let arguments = self.type_arguments()?;
        self.shallower();
        let count = arguments.len();
        generic(&name, arguments)
            .ok_or_else(|| self.lexer.wrong(start, format!("`{name}` does not take {count} types")))
    }

    /// `[A, B]`; `[()]` has none.
    fn type_arguments(&mut self) -> Parsed<Vec<Type>> {
        let mut arguments = Vec::new();
        self.expect(b'[')?;
        if self.takes(b'(')? {
            self.expect(b')')?;
            self.expect(b']')?;
            return Ok(arguments);
        }
        self.listed(b']', |parser| parser.whole_type().map(|ty| arguments.push(ty)))?;
        Ok(arguments)
    }
}
