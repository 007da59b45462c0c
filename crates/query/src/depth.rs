//! How deep SQL may nest.
//!
//! Owns: [`check_depth`]. Parsers, planners and expressions walk by recursion, a step an operator, and a
//! stack that overflows ends the process: no error could be given (P14). So texts that nest deeper than any
//! thread can hold are refused before they are planned.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

/// Operators one expression may have. Several times as many overflow the stack of a thread in an unoptimised
/// build.
const MAX_OPERATORS: usize = 250;
/// Words and signs without a comma, AND or OR between them: `x IS NULL IS NULL …` nests as operators do.
const MAX_RUN: usize = 1_000;
/// Joins, unions and the like in one statement.
const MAX_RELATIONS: usize = 64;

/// How deep the expression at some place is so far.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    operators: usize,
    run: usize,
}

/// Checks that nothing in the text nests too deep.
///
/// # Errors
/// What does, and what to do about it.
pub(crate) fn check_depth(tokens: &[Token]) -> Result<(), String> {
    let mut levels = vec![Level::default()];
    let mut relations = 0;
    for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))) {
        let now = levels.last().copied().unwrap_or_default();
        relations += usize::from(joins_relations(token));
        match token {
            // What is in parentheses is below what is around it.
            Token::LParen => levels.push(now),
            Token::RParen if levels.len() > 1 => {
                levels.pop();
            }
            token if separates(token) => replace_last(&mut levels, Level::default()),
            token => {
                let operators = now.operators + usize::from(is_operator(token));
                let run = if is_and_or(token) { 0 } else { now.run + 1 };
                replace_last(&mut levels, Level { operators, run });
            }
        }
        check(levels.last().copied().unwrap_or_default(), relations)?;
    }
    Ok(())
}

fn check(level: Level, relations: usize) -> Result<(), String> {
    if level.operators > MAX_OPERATORS {
        return Err(format!("it has more than {MAX_OPERATORS} operators in a row: use IN for many values"));
    }
    if level.run > MAX_RUN {
        return Err(format!("it has an expression of more than {MAX_RUN} words: write it in several parts"));
    }
    if relations > MAX_RELATIONS {
        return Err(format!("it joins or unites more than {MAX_RELATIONS} tables: ask in several queries"));
    }
    Ok(())
}

fn replace_last(levels: &mut [Level], level: Level) {
    if let Some(last) = levels.last_mut() {
        *last = level;
    }
}

/// Whether an expression ends here and another begins.
fn separates(token: &Token) -> bool {
    use Keyword as K;
    match token {
        Token::Comma => true,
        Token::Word(word) => matches!(
            word.keyword,
            K::SELECT | K::FROM | K::WHERE | K::GROUP | K::HAVING | K::ORDER | K::LIMIT | K::WHEN | K::THEN
        ),
        _ => false,
    }
}

fn is_and_or(token: &Token) -> bool {
    matches!(token, Token::Word(word) if matches!(word.keyword, Keyword::AND | Keyword::OR))
}

/// Whether the token joins two conditions or values.
fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(word.keyword, Keyword::AND | Keyword::OR | Keyword::NOT),
        Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod => true,
        Token::StringConcat | Token::DoubleColon | Token::Ampersand | Token::Pipe | Token::Caret => true,
        _ => false,
    }
}

fn joins_relations(token: &Token) -> bool {
    use Keyword as K;
    matches!(token, Token::Word(word)
        if matches!(word.keyword, K::JOIN | K::UNION | K::INTERSECT | K::EXCEPT | K::MINUS))
}
