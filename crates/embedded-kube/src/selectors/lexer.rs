//! Tokens of a label selector.

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
    Word(String),
}

impl Token {
    /// The text in error messages.
    pub fn literal(&self) -> &str {
        match self {
            Self::End => "",
            Self::Close => ")",
            Self::Comma => ",",
            Self::Not => "!",
            Self::DoubleEquals => "==",
            Self::Equals => "=",
            Self::Greater => ">",
            Self::In => "in",
            Self::Less => "<",
            Self::NotEquals => "!=",
            Self::NotIn => "notin",
            Self::Open => "(",
            Self::Word(word) => word,
        }
    }

    /// Where a value is expected, `in` and `notin` are values.
    pub fn into_value(self) -> Self {
        match self {
            Self::In | Self::NotIn => Self::Word(self.literal().to_owned()),
            other => other,
        }
    }
}

fn is_special(letter: char) -> bool {
    "=!(),><".contains(letter)
}

fn is_blank(letter: char) -> bool {
    " \t\r\n".contains(letter)
}

/// All tokens, then [`Token::End`]. A NUL ends the text.
pub fn tokenize(text: &str) -> Vec<Token> {
    let mut letters = text.chars().take_while(|letter| *letter != '\0').peekable();
    let mut tokens = Vec::new();
    while let Some(letter) = letters.next() {
        if is_blank(letter) {
            continue;
        }
        let follows_equals = letters.peek() == Some(&'=');
        let token = match letter {
            '=' if follows_equals => Token::DoubleEquals,
            '!' if follows_equals => Token::NotEquals,
            '=' => Token::Equals,
            '!' => Token::Not,
            '(' => Token::Open,
            ')' => Token::Close,
            ',' => Token::Comma,
            '>' => Token::Greater,
            '<' => Token::Less,
            first => {
                let mut word = String::from(first);
                while let Some(next) = letters.next_if(|next| !is_special(*next) && !is_blank(*next)) {
                    word.push(next);
                }
                match word.as_str() {
                    "in" => Token::In,
                    "notin" => Token::NotIn,
                    _ => Token::Word(word),
                }
            }
        };
        if matches!(token, Token::DoubleEquals | Token::NotEquals) {
            letters.next();
        }
        tokens.push(token);
    }
    tokens.push(Token::End);
    tokens
}
