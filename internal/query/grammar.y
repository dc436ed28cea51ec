// The grammar of the query language, for goyacc: `make generate` writes
// grammar.go from it. It is the whole language, in the shape and with the
// operator precedence of the grammar that is published with the service's .NET
// SDK, with what the language's documentation has beyond it: shifts (which bind as
// in JavaScript, tighter than comparisons) and names without AS in a select list.
// check.go refuses what isn't evaluated.
//
// NOT binds as tightly as a minus sign: NOT c.a = 1 is (NOT c.a) = 1.

%{
package query

func tree(l yyLexer) *parser { return l.(*parser) } //nolint:errcheck // the parser is its only lexer
%}

%union {
	tok    token
	q      *selectQuery
	src    *source
	e      expr
	list   []expr
	item   selected
	items  []selected
	order  orderItem
	orders []orderItem
	count  *count
	flag   bool
}

%token <tok> tokQuery tokCondition
%token <tok> tokAll tokAnd tokArray tokAs tokAsc tokBetween tokBy tokDesc tokDistinct tokEscape tokExists tokFalse tokFirst tokFrom tokGroup tokIn tokJoin tokLast tokLeft tokLike
%token <tok> tokLimit tokNot tokNull tokOffset tokOr tokOrder tokRank tokRight tokSelect tokTop tokTrue tokUdf tokUndefined tokValue tokWhere
%token <tok> tokIdent tokParam tokNumber tokString
%token <tok> tokNe tokLe tokGe tokConcat tokCoalesce tokShiftLeft tokShiftRight tokShiftZero
%token <tok> '(' '[' ']' '{' '=' '<' '>' '+' '-' '*' '/' '%' '&' '|' '^' '~'

%left tokConcat
%left '|'
%left '^'
%left '&'
%left '=' tokNe
%left '<' '>' tokLe tokGe
%left tokShiftLeft tokShiftRight tokShiftZero
%left '+' '-'
%left '*' '/' '%'

%type <q> query selection tail
%type <src> from source single collection
%type <e> expr choice or and predicate operation operand primary call where path
%type <list> exprs exprs_opt group
%type <item> item pair
%type <items> items pairs pairs_opt
%type <order> order ranked
%type <orders> orders
%type <count> top number
%type <tok> name property function key
%type <flag> distinct

%%

start:
	tokQuery query                   { tree(yylex).result = $2 }
|	tokCondition from where         { tree(yylex).result = tree(yylex).query(&selectQuery{condition: true, star: true, from: $2, where: $3}) }

query:
	tokSelect distinct top selection from where group tail
	{
		q := $4
		q.distinct, q.top, q.from, q.where, q.groupBy = $2, $3, $5, $6, $7
		q.orderBy, q.orderTok, q.rank, q.offset, q.limit = $8.orderBy, $8.orderTok, $8.rank, $8.offset, $8.limit
		$$ = tree(yylex).query(q)
	}

distinct:
	                                { $$ = false }
|	tokDistinct                     { $$ = true }

top:
	                                { $$ = nil }
|	tokTop number                   { $$ = $2 }

number:
	tokNumber                          { $$ = &count{tok: $1} }
|	tokParam                        { $$ = &count{tok: $1, param: $1.text} }

selection:
	'*'                             { $$ = &selectQuery{star: true, starTok: $1} }
|	tokValue expr                   { $$ = &selectQuery{value: $2} }
|	tokValue expr name              { $$ = &selectQuery{value: $2} } // the name is of no use
|	tokValue expr tokAs name        { $$ = &selectQuery{value: $2} }
|	items                           { $$ = &selectQuery{items: $1} }

items:
	item                            { $$ = []selected{$1} }
|	items ',' item                  { $$ = append($1, $3) }

item:
	expr                            { $$ = selected{e: $1} }
|	expr name                       { $$ = selected{e: $1, name: $2.text, tok: $2} }
|	expr tokAs name                 { $$ = selected{e: $1, name: $3.text, tok: $3} }

from:
	                                { $$ = nil }
|	tokFrom source                  { $$ = $2 }

source:
	single
|	source tokJoin single           { $$ = $1; $$.joins = append($$.joins, $3) }

single:
	collection
|	collection name                 { $$ = $1; $$.alias, $$.tok = $2.text, $2 }
|	collection tokAs name           { $$ = $1; $$.alias, $$.tok = $3.text, $3 }
|	name tokIn collection           { $$ = $3; $$.alias, $$.tok, $$.in = $1.text, $1, true }

collection:
	path                            { $$ = &source{collection: $1} }
|	'(' query ')'                   { $$ = &source{subquery: $2} }

path:
	name                            { $$ = tree(yylex).add(&ident{deep: 1, name: $1.text, tok: $1}) }
|	path '.' property               { $$ = tree(yylex).add(&member{deep: above($1), base: $1, name: $3.text, dot: true, tok: $3}) }
|	path '[' tokString ']'          { $$ = tree(yylex).add(&member{deep: above($1), base: $1, name: $3.str, tok: $3}) }
|	path '[' tokNumber ']'          { $$ = tree(yylex).add(&member{deep: above($1), base: $1, index: &literal{deep: 1, v: numberOf($3.num)}}) }

where:
	                                { $$ = nil }
|	tokWhere expr                   { $$ = $2 }

group:
	                                { $$ = nil }
|	tokGroup tokBy exprs            { $$ = $3 }

tail:
	                                { $$ = &selectQuery{} }
|	tokOrder tokBy orders           { $$ = &selectQuery{orderBy: $3, orderTok: $1} }
|	tokOrder tokBy tokRank ranked   { $$ = &selectQuery{orderBy: []orderItem{$4}, orderTok: $1, rank: true} }
|	tokOffset number tokLimit number { $$ = &selectQuery{offset: $2, limit: $4} }
|	tokOrder tokBy orders tokOffset number tokLimit number
	                                { $$ = &selectQuery{orderBy: $3, orderTok: $1, offset: $5, limit: $7} }
|	tokOrder tokBy tokRank ranked tokOffset number tokLimit number
	                                { $$ = &selectQuery{orderBy: []orderItem{$4}, orderTok: $1, rank: true, offset: $6, limit: $8} }

orders:
	order                           { $$ = []orderItem{$1} }
|	orders ',' order                { $$ = append($1, $3) }

order:
	expr                            { $$ = orderItem{e: $1} }
|	expr tokAsc                     { $$ = orderItem{e: $1, order: "ASC"} }
|	expr tokDesc                    { $$ = orderItem{e: $1, order: "DESC", desc: true} }

ranked:
	call                            { $$ = orderItem{e: $1} }
|	call tokAsc                     { $$ = orderItem{e: $1, order: "ASC"} }
|	call tokDesc                    { $$ = orderItem{e: $1, order: "DESC", desc: true} }

exprs:
	expr                            { $$ = []expr{$1} }
|	exprs ',' expr                  { $$ = append($1, $3) }

exprs_opt:
	                                { $$ = nil }
|	exprs

expr:
	choice
|	expr tokCoalesce choice         { $$ = tree(yylex).binary("??", $1, $3) }

choice:
	or
|	or '?' expr ':' choice          { $$ = tree(yylex).add(&conditional{deep: above($1, $3, $5), test: $1, then: $3, otherwise: $5}) }

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
	                                { $$ = tree(yylex).add(&between{deep: above($1, $3, $5), x: $1, lo: $3, hi: $5}) }
|	operation tokNot tokBetween operation tokAnd operation
	                                { $$ = tree(yylex).add(&between{deep: above($1, $4, $6), x: $1, lo: $4, hi: $6, not: true}) }
|	operation tokLike operation     { $$ = tree(yylex).add(&like{deep: above($1, $3), x: $1, pattern: $3}) }
|	operation tokNot tokLike operation { $$ = tree(yylex).add(&like{deep: above($1, $4), x: $1, pattern: $4, not: true}) }
|	operation tokLike operation tokEscape tokString
	                                { $$ = tree(yylex).add(&like{deep: above($1, $3), x: $1, pattern: $3, escape: $5.str, hasEscape: true, tok: $5}) }
|	operation tokNot tokLike operation tokEscape tokString
	                                { $$ = tree(yylex).add(&like{deep: above($1, $4), x: $1, pattern: $4, escape: $6.str, hasEscape: true, not: true, tok: $6}) }

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
|	'-' operand                     { $$ = tree(yylex).unary("-", $2) }
|	'+' operand                     { $$ = tree(yylex).unary("+", $2) }
|	'~' operand                     { $$ = tree(yylex).unary("~", $2) }
|	tokNot operand                  { $$ = tree(yylex).unary("NOT", $2) }

primary:
	name                            { $$ = tree(yylex).add(&ident{deep: 1, name: $1.text, tok: $1}) }
|	tokParam                        { $$ = tree(yylex).add(&param{deep: 1, name: $1.text, tok: $1}) }
|	tokString                       { $$ = &literal{deep: 1, v: stringOf($1.str)} }
|	tokNumber                       { $$ = &literal{deep: 1, v: numberOf($1.num)} }
|	tokTrue                         { $$ = &literal{deep: 1, v: boolOf(true)} }
|	tokFalse                        { $$ = &literal{deep: 1, v: boolOf(false)} }
|	tokNull                         { $$ = &literal{deep: 1, v: value{kind: kindNull}} }
|	tokUndefined                    { $$ = &literal{deep: 1} }
|	'[' exprs_opt ']'               { $$ = tree(yylex).add(&array{deep: above($2...), elements: $2}) }
|	'{' pairs_opt '}'               { $$ = tree(yylex).object($2) }
|	'(' expr ')'                    { $$ = $2 }
|	'(' query ')'                   { $$ = tree(yylex).subquery("", $2) }
|	tokExists '(' query ')'         { $$ = tree(yylex).subquery("EXISTS", $3) }
|	tokArray '(' query ')'          { $$ = tree(yylex).subquery("ARRAY", $3) }
|	tokAll '(' query ')'            { $$ = tree(yylex).subquery("ALL", $3) }
|	tokFirst '(' query ')'          { $$ = tree(yylex).subquery("FIRST", $3) }
|	tokLast '(' query ')'           { $$ = tree(yylex).subquery("LAST", $3) }
|	primary '.' property            { $$ = tree(yylex).add(&member{deep: above($1), base: $1, name: $3.text, dot: true, tok: $3}) }
|	primary '[' expr ']'            { $$ = tree(yylex).index($1, $3, $2, $4) }
|	call

call:
	function '(' exprs_opt ')'      { $$ = tree(yylex).add(&call{deep: above($3...), name: $1.text, args: $3, tok: $1}) }
|	tokUdf '.' property '(' exprs_opt ')'
	                                { $$ = tree(yylex).add(&call{deep: above($5...), name: $3.text, udf: true, args: $5, tok: $3}) }

pairs_opt:
	                                { $$ = nil }
|	pairs

pairs:
	pair                            { $$ = []selected{$1} }
|	pairs ',' pair                  { $$ = append($1, $3) }

pair:
	key ':' expr                    { $$ = selected{e: $3, name: $1.str, tok: $1} }

key:
	tokString
|	property                        { $$ = $1; $$.str = $1.text }

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
