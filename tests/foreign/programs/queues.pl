# A program in Perl for IBM MQ, by the shared library alone: it prints each call with its completion code, its reason and a value.
# The program in C# beside it makes the same calls.
use strict;
use warnings;
use FFI::Platypus 1.00;
use FFI::Platypus::Buffer qw(scalar_to_buffer);

my $library = FFI::Platypus->new(api => 1, lib => 'libmqm_r.so');
my %arguments = (
    MQCONN => ['string', 'sint32*'],
    MQOPEN => ['sint32', 'opaque', 'sint32', 'sint32*'],
    MQPUT => ['sint32', 'sint32', 'opaque', 'opaque', 'sint32', 'opaque'],
    MQGET => ['sint32', 'sint32', 'opaque', 'opaque', 'sint32', 'opaque', 'sint32*'],
    MQINQ => ['sint32', 'sint32', 'sint32', 'sint32*', 'sint32', 'sint32*', 'sint32', 'opaque'],
    MQCMIT => ['sint32'],
    MQBACK => ['sint32'],
    MQCLOSE => ['sint32', 'sint32*', 'sint32'],
    MQDISC => ['sint32*'],
);
my %function = map { $_ => $library->function($_ => [@{$arguments{$_}}, 'sint32*', 'sint32*'] => 'void') } keys %arguments;

use constant { SYNCPOINT => 2, NO_SYNCPOINT => 4, INPUT_OUTPUT_INQUIRE => 2 + 16 + 32, CURRENT_Q_DEPTH => 3 };
my ($connection, $queue, $nothing) = (0, 0, 0);

sub called {
    my ($name, $value, @given) = @_;
    my ($completion, $reason) = (0, 0);
    $function{$name}->call(@given, \$completion, \$reason);
    print join(' ', $name, $completion, $reason, $completion == 2 ? () : $value->()), "\n";
}

sub at { return (scalar_to_buffer($_[0]))[0]; }

sub descriptor {
    return pack 'a4 l7 A8 l2 x48 l x96 x12 x32 x32 l x28 x20', 'MD  ', 1, 0, 8, -1, 0, 546, 0, 'MQSTR', -1, 2, 0, 0;
}

sub opened {
    my ($name, $handle) = @_;
    my $object = pack 'a4 l2 a48 x48 x48 x12', 'OD  ', 1, 1, $name;
    called('MQOPEN', sub { () }, $connection, at($object), INPUT_OUTPUT_INQUIRE, $handle);
}

sub put {
    my ($body, $options) = @_;
    my ($md, $pmo) = (descriptor(), pack 'a4 l7 x96', 'PMO ', 1, $options, -1, 0, 0, 0, 0);
    called('MQPUT', sub { () }, $connection, $queue, at($md), at($pmo), length $body, at($body));
}

sub got {
    my ($options) = @_;
    my ($md, $gmo, $buffer, $length) = (descriptor(), pack('a4 l5 x48', 'GMO ', 1, $options, 0, 0, 0), "\0" x 100, 0);
    my $value = sub { (substr($buffer, 0, $length), 'backed out', unpack('x96 l', $md)) };
    called('MQGET', $value, $connection, $queue, at($md), at($gmo), length $buffer, at($buffer), \$length);
}

sub depth {
    my ($selector, $depth) = (CURRENT_Q_DEPTH, -1);
    called('MQINQ', sub { ('depth', $depth) }, $connection, $queue, 1, \$selector, 1, \$depth, 0, undef);
}

sub ended { called($_[0], sub { () }, $connection); }

called('MQCONN', sub { () }, 'QM1', \$connection);
opened('NOT.DEFINED', \$nothing);
opened('DEV.QUEUE.1', \$queue);
put('first', NO_SYNCPOINT);
got(NO_SYNCPOINT);
got(NO_SYNCPOINT);
put('never', SYNCPOINT);
ended('MQBACK');
depth();
put('second', SYNCPOINT);
ended('MQCMIT');
depth();
got(SYNCPOINT);
ended('MQBACK');
got(SYNCPOINT);
ended('MQCMIT');
depth();
called('MQCLOSE', sub { () }, $connection, \$queue, 0);
called('MQDISC', sub { () }, \$connection);
ended('MQCMIT');
