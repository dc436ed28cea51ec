// This is the grammar of the query language, for goyacc. `make generate` writes grammar.go
// from it. It covers the whole language, and package query refuses the features that it
// does not evaluate.
//
// The structure is that of the grammar that is published with the service's .NET SDK, but
// the precedence of operators is that of the service's own planner. It differs from
// JavaScript's: + - & | ^ have one precedence, and so have comparisons and shifts. Names in
// a select list need no AS, as in the language's documentation.
//
// NOT binds as tightly as a minus sign: NOT c.a = 1 is (NOT c.a) = 1.

%{
package syntax

import "strings"

func tree(l yyLexer) *parser { return l.(*parser) } //nolint:errcheck // the parser is its only lexer
%}

%union {
	tok    Token
	q      *Select
	src    *Source
	e      Expr
	list   []Expr
	item   Item
	items  []Item
	order  Order
	orders []Order
	count  *Count
	flag   bool
}

%token <tok> tokQuery tokCondition
%token <tok> tokAll tokAnd tokArray tokAs tokAsc tokBetween tokBy tokDesc tokDistinct tokEscape tokExists tokFalse tokFirst tokFrom tokGroup tokIn tokJoin tokLast tokLeft tokLike
%token <tok> tokLimit tokNot tokNull tokOffset tokOr tokOrder tokRank tokRight tokSelect tokTop tokTrue tokUdf tokUndefined tokValue tokWhere
%token <tok> tokIdent tokParam tokNumber tokString
%token <tok> tokNe tokLe tokGe tokConcat tokCoalesce tokShiftLeft tokShiftRight tokShiftZero
%token <tok> '(' '[' ']' '{' '=' '<' '>' '+' '-' '*' '/' '%' '&' '|' '^' '~'

%left '=' tokNe '<' '>' tokLe tokGe tokShiftLeft tokShiftRight tokShiftZero
%left tokConcat
%left '+' '-' '&' '|' '^'
%left '*' '/' '%'

%type <q> query selection sorting limits
%type <src> from source single collection
%type <e> expr choice or and predicate operation operand primary call where path
%type <list> exprs exprs_opt group alternatives
%type <item> item pair
%type <items> items pairs pairs_opt
%type <order> order
%type <orders> orders
%type <count> top number
%type <tok> name alias property function key direction prefix literal quantifier
%type <flag> distinct

%%

start:
	tokQuery query                   { tree(yylex).result = $2 }
|	tokCondition from where         { tree(yylex).result = tree(yylex).query(&Select{condition: true, Star: true, From: $2, Where: $3}) }

query:
	tokSelect distinct top selection from where group sorting limits
	{
		q := $4
		q.Distinct, q.Top, q.From, q.Where, q.GroupBy = $2, $3, $5, $6, $7
		q.OrderBy, q.OrderTok, q.Rank, q.Offset, q.Limit = $8.OrderBy, $8.OrderTok, $8.Rank, $9.Offset, $9.Limit
		$$ = tree(yylex).query(q)
	}

distinct:
	                                { $$ = false }
|	tokDistinct                     { $$ = true }

top:
	                                { $$ = nil }
|	tokTop number                   { $$ = $2 }

number:
	tokNumber                          { $$ = &Count{Tok: $1} }
|	tokParam                        { $$ = &Count{Tok: $1, Param: $1.Text} }

selection:
	'*'                             { $$ = &Select{Star: true, StarTok: $1} }
|	tokValue expr alias             { $$ = &Select{Value: $2} } // the name is ignored
|	items                           { $$ = &Select{Items: $1} }

items:
	item                            { $$ = []Item{$1} }
|	items ',' item                  { $$ = append($1, $3) }

item:
	expr alias                      { $$ = Item{Expr: $1, Name: $2.Text, Tok: $2} }

alias:
	                                { $$ = Token{} }
|	name
|	tokAs name                      { $$ = $2 }

from:
	                                { $$ = nil }
|	tokFrom source                  { $$ = $2 }

source:
	single
|	source tokJoin single           { $$ = $1; $$.Joins = append($$.Joins, $3) }

single:
	collection alias                { $$ = $1; $$.Alias, $$.Tok = $2.Text, $2 }
|	name tokIn collection           { $$ = $3; $$.Alias, $$.Tok, $$.In = $1.Text, $1, true }

collection:
	path                            { $$ = &Source{Collection: $1} }
|	'(' query ')'                   { $$ = &Source{Subquery: $2} }

path:
	name                            { $$ = tree(yylex).add(&Ident{deep: 1, Name: $1.Text, Tok: $1}) }
|	path '.' property               { $$ = tree(yylex).add(&Member{deep: above($1), Base: $1, Name: $3.Text, Dot: true, Tok: $3}) }
|	path '[' tokString ']'          { $$ = tree(yylex).add(&Member{deep: above($1), Base: $1, Name: $3.str, Tok: $3}) }
|	path '[' tokNumber ']'          { $$ = tree(yylex).add(&Member{deep: above($1), Base: $1, Index: &Literal{deep: 1, Value: $3.literal()}}) }

where:
	                                { $$ = nil }
|	tokWhere expr                   { $$ = $2 }

group:
	                                { $$ = nil }
|	tokGroup tokBy exprs            { $$ = $3 }

sorting:
	                                { $$ = &Select{} }
|	tokOrder tokBy orders           { $$ = &Select{OrderBy: $3, OrderTok: $1} }
|	tokOrder tokBy tokRank call direction
	                                { $$ = &Select{OrderBy: []Order{orderBy($4, $5)}, OrderTok: $1, Rank: true} }

limits:
	                                { $$ = &Select{} }
|	tokOffset number tokLimit number { $$ = &Select{Offset: $2, Limit: $4} }

orders:
	order                           { $$ = []Order{$1} }
|	orders ',' order                { $$ = append($1, $3) }

order:
	expr direction                  { $$ = orderBy($1, $2) }

direction:
	                                { $$ = Token{} }
|	tokAsc
|	tokDesc

exprs:
	expr                            { $$ = []Expr{$1} }
|	exprs ',' expr                  { $$ = append($1, $3) }

exprs_opt:
	                                { $$ = nil }
|	exprs

expr:
	choice
|	choice '?' expr ':' expr        { $$ = tree(yylex).conditional($1, $3, $5) }

choice:
	or
|	alternatives                    { $$ = tree(yylex).coalesce($1) }

alternatives:
	or tokCoalesce or               { $$ = []Expr{$1, $3} }
|	alternatives tokCoalesce or     { $$ = append($1, $3) }

or:
	and
|	or tokOr and                    { $$ = tree(yylex).chain("OR", $1, $3) }

and:
	predicate
|	and tokAnd predicate            { $$ = tree(yylex).chain("AND", $1, $3) }

predicate:
	operation
|	operation tokIn '(' exprs ')'   { $$ = tree(yylex).in($1, $4, false) }
|	operation tokNot tokIn '(' exprs ')' { $$ = tree(yylex).in($1, $5, true) }
|	operation tokBetween operation tokAnd operation
	                                { $$ = tree(yylex).add(&Between{deep: above($1, $3, $5), X: $1, Lo: $3, Hi: $5}) }
|	operation tokNot tokBetween operation tokAnd operation
	                                { $$ = tree(yylex).add(&Between{deep: above($1, $4, $6), X: $1, Lo: $4, Hi: $6, Not: true}) }
|	operation tokLike operation     { $$ = tree(yylex).add(&Like{deep: above($1, $3), X: $1, Pattern: $3}) }
|	operation tokNot tokLike operation { $$ = tree(yylex).add(&Like{deep: above($1, $4), X: $1, Pattern: $4, Not: true}) }
|	operation tokLike operation tokEscape tokString
	                                { $$ = tree(yylex).add(&Like{deep: above($1, $3), X: $1, Pattern: $3, Escape: $5.str, HasEscape: true, Tok: $5}) }
|	operation tokNot tokLike operation tokEscape tokString
	                                { $$ = tree(yylex).add(&Like{deep: above($1, $4), X: $1, Pattern: $4, Escape: $6.str, HasEscape: true, Not: true, Tok: $6}) }

operation:
	operand
|	operation tokConcat operation   { $$ = tree(yylex).binary("||", $1, $3) }
|	operation '|' operation         { $$ = tree(yylex).binary("|", $1, $3) }
|	operation '^' operation         { $$ = tree(yylex).binary("^", $1, $3) }
|	operation '&' operation         { $$ = tree(yylex).binary("&", $1, $3) }
|	operation '=' operation         { $$ = tree(yylex).binary("=", $1, $3) }
|	operation tokNe operation       { $$ = tree(yylex).binary("!=", $1, $3) }
|	operation '<' operation         { $$ = tree(yylex).binary("<", $1, $3) }
|	operation '>' operation         { $$ = tree(yylex).binary(">", $1, $3) }
|	operation tokLe operation       { $$ = tree(yylex).binary("<=", $1, $3) }
|	operation tokGe operation       { $$ = tree(yylex).binary(">=", $1, $3) }
|	operation tokShiftLeft operation { $$ = tree(yylex).binary("<<", $1, $3) }
|	operation tokShiftRight operation { $$ = tree(yylex).binary(">>", $1, $3) }
|	operation tokShiftZero operation { $$ = tree(yylex).binary(">>>", $1, $3) }
|	operation '+' operation         { $$ = tree(yylex).binary("+", $1, $3) }
|	operation '-' operation         { $$ = tree(yylex).binary("-", $1, $3) }
|	operation '*' operation         { $$ = tree(yylex).binary("*", $1, $3) }
|	operation '/' operation         { $$ = tree(yylex).binary("/", $1, $3) }
|	operation '%' operation         { $$ = tree(yylex).binary("%", $1, $3) }

operand:
	primary
|	prefix operand                  { $$ = tree(yylex).unary(strings.ToUpper($1.Text), $2) }

prefix:
	'-'
|	'+'
|	'~'
|	tokNot

primary:
	name                            { $$ = tree(yylex).add(&Ident{deep: 1, Name: $1.Text, Tok: $1}) }
|	tokParam                        { $$ = tree(yylex).add(&Param{deep: 1, Name: $1.Text, tok: $1}) }
|	literal                         { $$ = &Literal{deep: 1, Value: $1.literal()} }
|	'[' exprs_opt ']'               { $$ = tree(yylex).add(&Array{deep: above($2...), Elements: $2}) }
|	'{' pairs_opt '}'               { $$ = tree(yylex).object($2) }
|	'(' expr ')'                    { $$ = $2 }
|	'(' query ')'                   { $$ = tree(yylex).subquery("", $2) }
|	quantifier '(' query ')'        { $$ = tree(yylex).subquery(strings.ToUpper($1.Text), $3) }
|	primary '.' property            { $$ = tree(yylex).add(&Member{deep: above($1), Base: $1, Name: $3.Text, Dot: true, Tok: $3}) }
|	primary '[' expr ']'            { $$ = tree(yylex).index($1, $3, $2, $4) }
|	call

literal:
	tokString
|	tokNumber
|	tokTrue
|	tokFalse
|	tokNull
|	tokUndefined

quantifier:
	tokExists
|	tokArray
|	tokAll
|	tokFirst
|	tokLast

call:
	function '(' exprs_opt ')'      { $$ = tree(yylex).add(&Call{deep: above($3...), Name: $1.Text, Args: $3, Tok: $1}) }
|	tokUdf '.' property '(' exprs_opt ')'
	                                { $$ = tree(yylex).add(&Call{deep: above($5...), Name: $3.Text, Udf: true, Args: $5, Tok: $3}) }

pairs_opt:
	                                { $$ = nil }
|	pairs

pairs:
	pair                            { $$ = []Item{$1} }
|	pairs ',' pair                  { $$ = append($1, $3) }

pair:
	key ':' expr                    { $$ = Item{Expr: $3, Name: $1.str, Tok: $1} }

key:
	tokString
|	property                        { $$ = $1; $$.str = $1.Text }

function:
	tokIdent
|	tokLeft
|	tokRight

name:
	tokIdent
|	tokAll
|	tokFirst
|	tokLast

property:
	name
|	tokRank
|	tokLeft
|	tokRight
|	tokEscape
