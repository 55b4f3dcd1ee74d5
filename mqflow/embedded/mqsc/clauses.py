"""The clauses of a command: keywords with their brackets, checked against the attributes that the command accepts.

This file knows the form of clauses, but no command. An error names the position of the wrong token and the accepted words.
Source: IBM q085100 "Rules for using MQSC commands".
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from mqflow.embedded.mqsc.commands import Value
from mqflow.embedded.mqsc.lexer import RefusedError
from mqflow.embedded.mqsc.values import read_flag, read_list, read_value
from mqflow.embedded.mqsc.vocabulary import Attributes
from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.lexer import Token, TokenKind
from mqflow.mqi.names import is_object_name
from mqflow.policy.did_you_mean import hint

__all__ = ("Clause", "Parameters", "bare", "choice", "clauses_of", "name_of", "pattern_of", "single", "sort")


class Clause(Struct, frozen=True):
    """A keyword and the tokens in its brackets."""

    keyword: Token
    #: None for a keyword without brackets.
    arguments: tuple[Token, ...] | None = None

    @property
    def word(self) -> str:
        """The keyword, in capitals."""
        return self.keyword.folded


class Parameters(Struct):
    """The clauses of a command, by use: values to set, attributes to show, and options."""

    #: The values to set, by field name of the record.
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    #: The keywords of the attributes that a DISPLAY shows.
    keywords: set[str] = field(default_factory=set[str])
    options: dict[str, Clause] = field(default_factory=dict[str, Clause])
    #: MQSC attributes that the embedded queue manager does not support.
    ignored: list[str] = field(default_factory=list[str])


def clauses_of(tokens: Sequence[Token]) -> list[Clause]:
    """Return the clauses in order: each keyword with its brackets."""
    clauses: list[Clause] = []
    position = 0
    while position < len(tokens):
        keyword = tokens[position]
        if keyword.kind is not TokenKind.WORD:
            raise RefusedError(keyword, f"A keyword is expected here, not '{keyword.text}'.")
        position += 1
        if position < len(tokens) and tokens[position].kind is TokenKind.OPEN:
            arguments = _arguments(keyword, tokens, position)
            clauses.append(Clause(keyword, arguments))
            position += len(arguments) + len("()")
        else:
            clauses.append(Clause(keyword))
    return clauses


def sort(
    clauses: Sequence[Clause], attributes: Attributes, options: Mapping[str, str], unsupported: frozenset[str], *, asking: bool
) -> Parameters:
    """Return the clauses, sorted by use. `options` maps each option word to the choice that it makes (NOREPLACE: REPLACE).

    Refuses a clause that the command does not accept, and a second clause for one attribute or choice. With `asking`,
    attribute keywords select the attributes to show; otherwise they set values.
    """
    found = Parameters()
    said: set[str] = set()
    for clause in clauses:
        spec = attributes.get(clause.word)
        subject = options.get(clause.word) or (spec.field if spec else clause.word)
        if subject in said:
            raise RefusedError(clause.keyword, f"{clause.word} is twice in the command, or contradicts an earlier word of it.")
        said.add(subject)
        if clause.word in options:
            found.options[clause.word] = clause
        elif spec is not None and asking:
            bare(clause)
            found.keywords.add(spec.keyword)
        elif spec is not None:
            found.values[spec.field] = _setting(spec, clause)
        elif clause.word in unsupported:
            found.ignored.append(clause.word)
        else:
            raise _unknown(clause.keyword, attributes, options, asking=asking)
    return found


def single(clause: Clause) -> Token:
    """Return the only word or string in the brackets."""
    match clause.arguments:
        case (token,):
            return token
        case (_, second, *_):
            raise RefusedError(second, f"{clause.word} takes one value; put text with blanks in quotes.")
        case _:
            raise RefusedError(clause.keyword, f"{clause.word} needs a value in brackets.")


def bare(clause: Clause) -> None:
    """Refuse brackets after a keyword that takes no brackets."""
    if clause.arguments is not None:
        raise RefusedError(clause.arguments[0], f"{clause.word} takes no brackets here.")


def choice(options: Mapping[str, Clause], keyword: str, words: Sequence[str]) -> str:
    """Return the word in the brackets of an option such as TYPE(HANDLE), or the first of `words` if the option is missing."""
    if keyword not in options:
        return words[0]
    token = single(options[keyword])
    if token.folded not in words:
        raise RefusedError(token, f"{keyword}({token.folded}) is not valid. {keyword} takes {', '.join(words)}.")
    return token.folded


def name_of(clause: Clause) -> str:
    """Return the object name in the brackets."""
    token = single(clause)
    if not is_object_name(token.folded):
        raise RefusedError(token, f"'{token.folded}' is not a name: a name is 1 to 48 of A-Z a-z 0-9 . _ / %.")
    return token.folded


def pattern_of(clause: Clause) -> str:
    """Return the name in the brackets: a full name, or a generic name that ends in an asterisk."""
    token = single(clause)
    stem = token.folded.removesuffix("*")
    if not is_object_name(stem) and token.folded != "*":
        what = "a name is 1 to 48 of A-Z a-z 0-9 . _ / %, with an asterisk at the end for every name with that beginning"
        raise RefusedError(token, f"'{token.folded}' is not a name: {what}.")
    return token.folded


def _arguments(keyword: Token, tokens: Sequence[Token], opening: int) -> tuple[Token, ...]:
    for position in range(opening + 1, len(tokens)):
        token = tokens[position]
        if token.kind is TokenKind.OPEN:
            raise RefusedError(token, f"The brackets of {keyword.text} cannot hold brackets: put its value in quotes.")
        if token.kind is TokenKind.CLOSE:
            if position == opening + 1:
                raise RefusedError(token, f"{keyword.text}() says nothing: write ' ' for a blank.")
            return tuple(tokens[opening + 1 : position])
    raise RefusedError(tokens[opening], f"The brackets of {keyword.text} are never closed.")


def _setting(spec: AttributeSpec, clause: Clause) -> Value:
    if spec.read_only:
        raise RefusedError(clause.keyword, f"{clause.word} is shown by DISPLAY and cannot be set.")
    if spec.flag:
        bare(clause)
        return read_flag(spec, clause.word)
    if spec.items_max and clause.arguments:
        return read_list(spec, clause.arguments)
    return read_value(spec, single(clause))


def _unknown(keyword: Token, attributes: Attributes, options: Mapping[str, str], *, asking: bool) -> RefusedError:
    settable = {word for word, spec in attributes.items() if asking or not spec.read_only}
    words = sorted({*settable, *options})
    text = f"This command does not take '{keyword.text}'.{hint(keyword.text, words)} It takes {', '.join(words) or 'nothing'}."
    return RefusedError(keyword, text)
