import { chmod, writeFile } from "node:fs/promises";
import { freshPublicKey } from "./agents.js";

/** For as many runs as an agent of writeJournalingAgent may make. Real ones, each made once per test process. */
const keys = Array.from({ length: 200 }, freshPublicKey);

/**
 * An agent as somebody else would write it, in another language, that knows the wire format by heart: in Perl,
 * which every Debian has and which starts at a tenth of Node's cost. Each run takes a real key from the
 * end of the file `keys`, does what the machine's provider id says, and writes down when it began and ended.
 *
 * - `exits`: exit 3 with words on standard error
 * - `rubbish`: an answer that is no protobuf
 * - `other`: an answer for another machine
 * - `slow…`: waits 60 s before it answers
 * - anything else: answers, and leaves a child behind that holds its streams
 */
export async function writeJournalingAgent(
  file: string,
  journal: string,
  keyFile: string,
): Promise<void> {
  await writeFile(keyFile, Buffer.concat(keys));
  await writeFile(
    file,
    `#!/usr/bin/perl
$| = 1;
undef $/;
$init = <STDIN>;
for ($at = 0; $at < length $init;) {
  $tag = ord substr $init, $at++, 1;
  $length = $shift = 0;
  do {
    $byte = ord substr $init, $at++, 1;
    $length |= ($byte & 127) << $shift;
    $shift += 7;
  } while $byte > 127;
  $field{$tag >> 3} = substr $init, $at, $length;
  $at += $length;
}
($what, $machine) = ($field{2}, $field{4});
open $journal, ">>", "${journal}";
sub note { syswrite $journal, "$_[0] $machine 0\n" }
sub varint { my $n = shift; $n < 128 ? chr $n : chr($n & 127 | 128) . varint($n >> 7) }
sub field { chr($_[0] << 3 | 2) . varint(length $_[1]) . $_[1] }
note("begin");
if ($what eq "exits") {
  print STDERR "no license for this machine\n";
  note("end");
  exit 3;
}
if ($what eq "rubbish") {
  print "Segmentation fault";
  note("end");
  exit;
}
sleep 60 if $what =~ /^slow/;
if ($what !~ /^slow/) {
  $child = fork // die;
  exec "sleep", "300" if !$child;
  note("child:$child");
}
open $keys, "+<", "${keyFile}";
flock $keys, 2;
seek $keys, -32, 2;
read $keys, $key, 32;
truncate $keys, (-s $keys) - 32;
close $keys;
substr($init, index($init, $machine), 36) = substr "another-machine-altogether" . "!" x 36, 0, 36 if $what eq "other";
note("key:" . unpack "H*", $key);
print field(1, $init), field(2, $key);
note("end");
`,
  );
  await chmod(file, 0o755);
}

/**
 * The same in Perl, which every Debian has, at a fraction of the processor time: one process, which answers the
 * key that lies ready in `keys` under the machine's id. The length of the echoed init is a varint of two bytes.
 */
export async function writeKeyedAgent(file: string, journal: string, keys: string): Promise<void> {
  await writeFile(
    file,
    `#!/usr/bin/perl
undef $/;
$init = <STDIN>;
($machine) = $init =~ /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/;
open($journal, ">>", "${journal}");
syswrite($journal, "begin $machine 0\n");
open($key, "<", "${keys}/$machine");
$length = length($init);
print "\x0a", chr($length % 128 + 128), chr($length >> 7), $init, "\x12\x20", <$key>;
syswrite($journal, "end $machine 0\n");
`,
  );
  await chmod(file, 0o755);
}
