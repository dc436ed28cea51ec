// Command gohost has hosts of this module's processor, over package cosmos, and is commanded by its standard input as the hosts of Java's
// processor are (interop/java, LiveHosts): the drivers under interop/ start it, and kill it.
//
//	start HOST mode=... database=... monitored=... leases=... prefix=... [from=...] [items=...] [poll=...] [...]
//	stop HOST      block HOST      unblock HOST      quit
//
// It reads the account from CHANGEFEED_ENDPOINT and CHANGEFEED_KEY. mode is one of Java's, which says the dialect of the leases too: handleChanges,
// latestVersion, allVersions; or dotnet.
package main
