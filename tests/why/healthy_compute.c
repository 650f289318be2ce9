/* why: healthy */
#include "why.h"

BODY
{
    for (;;)
        work(100000);
}
